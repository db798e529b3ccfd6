"""Names in json that predicates use and samples lack: refused early, with what to do."""

import json
from pathlib import Path

import pytest

from tests.filtering.commands import pasted, run
from tests.shards.archives import write_tar
from wdsflow.expressions.errors import ExpressionError
from wdsflow.filtering.inputs import check_inputs
from wdsflow.filtering.predicates.catalog import parse
from wdsflow.stages.scores import all_scores


def write(folder: Path, rare: int) -> None:
    """Write three shards of 20 samples; only sample ``rare`` of the second has the name "rare"."""
    for shard in range(3):
        members = []
        for sample in range(20):
            more = {"rare": 1} if (shard, sample) == (1, rare) else {}
            tree = {"flag": True, "tags": ["a"], "similarity": sample / 20, **more}
            key = f"{shard}{sample:03d}"
            members += [(f"{key}.jpg", b"\xff\xd8\xff"), (f"{key}.json", json.dumps(tree).encode())]
        write_tar(folder / f"{shard}.tar", members)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(check_inputs, "_CHECKED", 30)  # as of a set with many more samples
    return tmp_path


def filtered(where: str) -> tuple[str, ...]:
    return ("filter", "{0..2}.tar", "-o", "out", "--jobs", "0", "--where", where)


@pytest.mark.parametrize("name", ["json_number", "json_text"])
@pytest.mark.parametrize("settings", ["' '", "'a', field=' '"])
def test_an_empty_name_is_refused_with_one_that_is_not(name: str, settings: str):
    message = rf"{name}: name a value of the json, as in {name}\('similarity'\)"
    with pytest.raises(ExpressionError, match=message):
        parse(f"{name}({settings}) is None", all_scores())


def test_a_name_that_is_only_far_behind_is_refused_with_the_command_that_filters_by_it(here: Path):
    write(here, rare=15)
    done = run(*filtered("json_number('rare') > 0"))
    assert done.status == 2
    assert (
        "none of the checked samples has a number 'rare' in its json: 30 samples of 3 shards"
        in done.err
    )
    (command,) = [each for each in done.commands if each.startswith("wdsflow filter")]
    assert "     1  kept" in pasted(command).out


def test_a_name_that_some_of_the_first_samples_of_a_shard_have_is_found(here: Path):
    write(here, rare=9)
    assert "     1  kept" in run(*filtered("json_number('rare') > 0")).out


def test_a_name_inside_or_is_refused_as_well(here: Path):
    write(here, rare=9)
    done = run(*filtered("json_number('similarity') > 0.5 or json_number('similarty') > 0.5"))
    assert "none of the checked samples has a number 'similarty'" in done.err
    assert "json_number('similarity')" in done.err


@pytest.mark.parametrize(("name", "what"), [("flag", "true or false"), ("tags", "a list")])
def test_a_name_whose_values_no_score_reads_is_said_to_have_them(here: Path, name: str, what: str):
    write(here, rare=9)
    done = run(*filtered(f"json_number('{name}') > 0"))
    assert f"; 60 of 60 checked samples have {what} there, which no score reads" in done.err


@pytest.mark.deep
def test_score_announces_what_it_adds_only_once_it_is_accepted(here: Path):
    write(here, rare=9)
    assert run("measure", "{0..2}.tar", "-o", "s", "--scores", "bytes", "--jobs", 0).status == 0
    refused = run(
        "measure", "{0..2}.tar", "-o", "s", "--scores", "json_number('nope')", "--jobs", 0
    )
    assert refused.status == 2
    assert "adding" not in refused.err + refused.out
    added = run(
        "measure", "{0..2}.tar", "-o", "s", "--scores", "json_number('similarity')", "--jobs", 0
    )
    assert 'adding json_number(path="similarity")' in added.err + added.out
