"""``wdsflow train --ledger DIR --where PREDICATE``.

Tests what the check before training reports on the subset, and misuse.
"""

import importlib.util
import json
import re
import shutil
import signal

import pytest

from tests.filtering.commands import pasted, run
from tests.training.shards import write_tar
from tests.training.subsets import WHERE, members, write_scored
from tests.training.trainings import command, write_data
from wdsflow import FeedOptions
from wdsflow.training.launch.preflight import preflight

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("open_clip_train") is None, reason="needs OpenCLIP"
)
COUNTS = [23, 30, 12, 19, 27]


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    folder = tmp_path_factory.mktemp("use")
    write_scored(folder, COUNTS)
    (folder / "in" / "sizes.json").write_text(
        json.dumps({f"{number:04d}.tar": 1000 for number in range(len(COUNTS))})
    )
    return folder


@pytest.fixture
def here(scored, tmp_path, monkeypatch):
    shutil.copytree(scored, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def openclip(*more, data="in/{0000..0004}.tar"):
    return "--", "--train-data", data, "--workers", 1, "--batch-size", 8, *more


def look(folder, where, *more, data="in/{0000..0004}.tar", dry_run=False, **options):
    options = FeedOptions(ledger=f"{folder}/scored", where=where, **options)
    return preflight(["--train-data", f"{folder}/{data}", *more], options, dry_run=dry_run)


@pytest.mark.deep
def test_the_check_before_training_judges_the_subset(scored):
    found = look(scored, WHERE, "--workers", "2", "--batch-size", "4")
    assert not found.refused
    kept = re.fullmatch(
        r"preflight: the ledger keeps (\d+) of 111 samples \(.*%\), in 4 of 5 shards",
        found.lines[0],
    )
    assert found.lines[1].startswith(f"preflight: 4 shards, {kept[1]} samples, {kept[1]} usable, ")
    assert len(found.lines) == 2  # no word about sizes.json, which is of all samples


@pytest.mark.deep
def test_too_few_samples_for_a_batch_of_a_worker_are_refused(scored):
    found = look(scored, "width >= 80", "--workers", "4", "--batch-size", "8")
    text = "\n".join(found.lines)
    assert found.refused
    assert "P302" in text
    assert (
        f"wdsflow train --ledger {scored}/scored --where 'width >= 80' --schedule balanced -- "
        in text
    )
    assert not look(scored, "width >= 80", "--workers", "1", "--batch-size", "4").refused


@pytest.mark.deep
def test_shards_of_which_nothing_is_kept_count_for_no_worker(scored):
    """There are five shards for five workers, but one of them has only small pictures."""
    assert not look(scored, "caption_words > 0", "--workers", "5", "--batch-size", "4").refused
    found = look(scored, "width > 32", "--workers", "5", "--batch-size", "4")
    assert found.refused
    assert "in 4 of 5 shards" in found.lines[0]
    assert any("P303" in line or "shards must be" in line for line in found.lines)


@pytest.mark.deep
def test_a_dry_run_reports_on_the_subset(here):
    done = run("train", "--ledger", "scored", "--where", WHERE, "--dry-run", *openclip())
    assert done.status == 0
    assert "the ledger keeps " in done.err
    assert "4 shards" in done.out


WRONG = {
    "no predicate": (("--ledger", "scored"), "--ledger needs --where"),
    "no ledger": (("--where", "width > 50"), "--where needs --ledger"),
    "no such folder": (("--ledger", "measure", "--where", "width > 50"), "measure has no ledgers"),
    "a score that is not there": (
        ("--ledger", "scored", "--where", "min_side > 30"),
        "scored has no min_side",
    ),
    "nothing kept": (
        ("--ledger", "scored", "--where", "width > 5000"),
        "keeps none of 111 samples in 5 shards",
    ),
}


@pytest.mark.deep
@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_use_is_refused_with_commands_that_work(here, wrong):
    words, message = WRONG[wrong]
    done = run("train", *words, "--dry-run", *openclip())
    assert (done.status, done.out) == (1 if wrong == "nothing kept" else 2, "")
    assert message in done.err
    assert done.commands
    if wrong != "nothing kept":
        assert all(
            "--dry-run" in each for each in done.commands if each.startswith("wdsflow train")
        )
    # The command that trains is pasted with --dry-run: a training takes minutes.
    endings = [
        pasted(re.sub("^wdsflow train (?!.*--dry-run)", "wdsflow train --dry-run ", each))
        for each in done.commands
    ]
    if wrong == "nothing kept":  # a cut would keep nothing, too; it says which term drops them
        assert "dropped by width > 5000  (100.0%)" in endings[0].out
    else:
        assert [ending.status for ending in endings] == [0] * len(endings), endings[-1].err


@pytest.mark.deep
def test_a_shard_that_changed_and_one_that_was_not_scored_are_refused_with_commands_that_work(here):
    write_tar(here / "in" / "0003.tar", members(9, 20))
    words = ("train", "--ledger", "scored", "--where", WHERE, "--dry-run")
    done = run(*words, *openclip())
    assert done.status == 2
    assert (
        "0003.parquet was made from another shard than in/0003.tar, or the shard has changed"
        in done.err
    )
    score, then = done.commands
    assert pasted(score).status == 0
    assert "--dry-run" in then
    assert pasted(then).status == 0
    write_tar(here / "in" / "new.tar", members(9, 20))
    done = run(*words, *openclip(data="in/new.tar"))
    assert "scored has no ledger of in/new.tar" in done.err


@pytest.mark.deep
def test_ledgers_of_samples_that_stages_changed_are_refused_with_the_cut_that_writes_them(here):
    (here / "recipe.yaml").write_text("scores: [width]\nstages:\n  - clean_text\n")
    assert run("measure", "in", "-o", "staged", "--recipe", "recipe.yaml", "--jobs", 0).status == 0
    done = run("train", "--ledger", "staged", "--where", "width > 50", *openclip(data="in"))
    assert done.status == 2
    assert "was measured with stages, which change samples" in done.err
    (cut,) = done.commands
    assert pasted(cut).status == 0
    assert len(list((here / "staged-kept").glob("*.tar"))) == 4


def test_a_wrong_predicate_is_shown_with_its_place(here):
    for words in (("--ledger", "scored"), ()):
        if not words:
            shutil.rmtree("scored")
        done = run("train", *words, "--where", "widht > 5", *openclip())
        assert (done.status, done.out) == (2, "")
        assert done.err.splitlines() == [
            "wdsflow: where, column 1: no score is called 'widht'",
            "    widht > 5",
            "    ^^^^^",
            "  did you mean width?",
        ]


def test_ledgers_elsewhere_are_named_where_none_are_given_or_not_there(here):
    where = ("--where", "width > 50")
    rest = "--where 'width > 50' -- --train-data 'in/{0000..0004}.tar' --workers 1 --batch-size 8"
    done = run("train", *where, *openclip())
    assert (done.status, done.out) == (2, "")
    assert done.err.splitlines() == [
        "wdsflow: --where needs --ledger: the folder with the scores",
        f"  with the ledgers in {here}/scored: wdsflow train --ledger {here}/scored {rest}",
    ]
    done = run("train", "--ledger", "score", *where, *openclip())
    assert (done.status, done.out) == (2, "")
    assert done.err.splitlines() == [
        "wdsflow: score has no ledgers: give the folder that filter or measure wrote",
        f"  with the ledgers in scored: wdsflow train --ledger scored {rest}",
    ]
    shutil.rmtree("scored")
    done = run("train", *where, *openclip())
    assert done.err.splitlines()[1:] == [
        "  to compute them: wdsflow measure 'in/{0000..0004}.tar' -o scored --scores width",
        f"  then: wdsflow train --ledger scored {rest}",
    ]


@pytest.mark.deep
def test_a_training_that_was_killed_resumes_and_another_subset_is_refused(tmp_path, drive):
    data = write_data(tmp_path)
    scores = ("--scores", "width", "--jobs", 0)
    assert run("measure", data, "-o", tmp_path / "scored", *scores).status == 0
    own = [
        "--status-every",
        "0",
        "--checkpoint-every",
        "3",
        "--schedule",
        "balanced",
        "--ledger",
        f"{tmp_path}/scored",
    ]
    kept = [*own, "--where", "width > 1"]
    runs = [("whole", kept, {}, []), ("broken", kept, {"signal": signal.SIGKILL, "at": 5}, [])]
    runs += [("other", [*own, "--where", "width > 2"], {}, ["--resume", "latest"])]
    runs += [("again", kept, {}, ["--resume", "latest"])]
    scenarios = [
        {
            "words": [
                *words,
                "--",
                *command(tmp_path, "whole" if name == "whole" else "run", *last),
            ],
            "name": str(tmp_path / name),
            **end,
        }
        for name, words, end, last in runs
    ]
    assert drive(scenarios) == ["0", "-9", "1", "0"]
    whole = (tmp_path / "whole.0").read_text().split()
    assert (tmp_path / "again.0").read_text().split() == whole[3:]
    said = (tmp_path / "other.0.said").read_text()
    assert "where: 'width > 1' then, 'width > 2' now" in said
    assert (
        f"to resume with the samples of the checkpoint: wdsflow train --ledger {tmp_path}/scored --where 'width > 1'"
        in said
    )


@pytest.mark.deep
def test_where_the_predicate_keeps_less_than_a_batch_it_is_the_cause_and_no_setting_is_offered(
    scored,
):
    found = look(scored, WHERE, "--workers", "2", "--batch-size", "64", dry_run=True)
    assert found.refused
    fixes = [line.strip() for line in found.lines if line.startswith("  ")]
    assert fixes[0].startswith("to see which term drops how many: wdsflow filter ")
    assert pasted(fixes[0].partition(": ")[2]).status == 0
    assert not any(
        "--batch-size 1" in line or "--dataset-resampled" in line for line in found.lines
    )
    (verdict,) = found.reports[0].verdicts
    assert re.match(r"the ledger keeps \d+ of 111 samples ", verdict.reasons[0].message)
