"""How runs of the user's pipeline stand in reports, and what the command line refuses."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests import factories
from tests.golden_file import check_file
from tests.validate.pipeline.really import differences
from tests.validate.pipeline.small_set import forty, run, write
from tests.validate.rules.build import shown
from wdsflow import check
from wdsflow.scan.evidence import Evidence
from wdsflow.validate.catalog.run_rules import run_rules
from wdsflow.validate.report import render
from wdsflow.validate.rules.kit.base import Context
from wdsflow.validate.verdicts.verdict import Reason

# Each starts a process that imports PyTorch.

HERE = Path(__file__).parent
SMALL = HERE / "small_pipelines.py"


def test_a_run_is_in_every_report_next_to_the_verdicts_on_readers(tmp_path: Path) -> None:
    report = check(forty(tmp_path), ["open-clip-3.3"], pipeline=f"{SMALL}:captions")

    assert [verdict.reader for verdict in report.verdicts] == ["open-clip-3.3", "pipeline"]
    assert "P326" in {finding.code for finding in report.findings}
    for form in ("text", "json", "sarif", "github", "html"):
        assert "small_pipelines" in render(report, form), form
    verdict = json.loads(render(report, "json"))["verdicts"][-1]
    assert (verdict["samples"], verdict["usable"]) == (40, 36)
    ran = verdict["run"]
    assert (ran["ended_by"], ran["read"], ran["delivered"], ran["shards"]) == (
        "itself",
        None,
        36,
        4,
    )
    assert [(stage["title"], stage["out"]) for stage in ran["stages"]] == [("captions", 36)]


def test_the_text_has_the_numbers_of_each_stage_and_what_was_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    urls = forty(tmp_path)

    assert run(*urls, "--pipeline", f"{SMALL}:captions", "--ignore", "F,I") == 1
    text = " ".join(capsys.readouterr().out.split())
    assert "LOSES 36 of 40 samples reach a batch" in text
    assert "1 captions - 36 sample" in text
    assert "was run to its own end: 36 elements came out" in text


def test_a_run_that_cannot_be_judged_has_its_own_exit_status_and_the_command_that_reads_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    forty(tmp_path)

    assert (
        run("{0..3}.tar", "--pipeline", f"{SMALL}:captions", "--samples", "20", "--ignore", "F,I")
        == 2
    )
    text = capsys.readouterr().out
    assert "NOT JUDGED 20 elements came out" in " ".join(text.split())
    command = next(
        line.strip() for line in text.splitlines() if line.strip().startswith("wdsflow validate")
    )
    assert command == f"wdsflow validate '{{0..3}}.tar' --pipeline {SMALL}:captions --level full"
    assert (
        run("{0..3}.tar", "--pipeline", f"{SMALL}:captions", "--level", "full", "--ignore", "F,I")
        == 1
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--samples", "5"],
            "--samples is how many samples of your own pipeline are read: name it",
        ),
        (
            ["--samples", "5", "--pipeline", "x.py:make", "--check", "fork"],
            "a check reads its own part of the shards",
        ),
        (
            ["--samples", "5", "--pipeline", "x.py:make", "--level", "full"],
            "--level full reads all samples",
        ),
    ],
)
def test_samples_are_refused_where_they_limit_nothing(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(write(tmp_path / "0.tar", 3), *words) == 2
    assert said in capsys.readouterr().err


def test_samples_are_refused_in_python_as_well(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="samples limits how much of a pipeline is run"):
        check(write(tmp_path / "0.tar", 3), [], samples=5)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("code", "name", "said"),
    [
        ("import json\n\n1 / 0", "make", "broken.py:3: ZeroDivisionError"),
        ("def make(urls):\n    return urls.nothing", "make", "broken.py:2: AttributeError"),
        ("def make(urls:\n", "make", "broken.py:1:"),
        ("def make(urls):\n    return 5", "make", "not a pipeline: int"),
        ("def make(urls): ...", "mkae", "has no mkae; it has: make"),
        (
            "import argparse\np = argparse.ArgumentParser()\np.add_argument('--data', required=True)\np.parse_args()",
            "make",
            "it parses a command line when imported (--data is required)",
        ),
    ],
)
def test_errors_in_the_users_code_have_their_line_and_exit_status_2(
    code: str, name: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "broken.py"
    path.write_text(code)

    assert run(write(tmp_path / "0.tar", 3), "--pipeline", f"{path}:{name}") == 2
    assert said in capsys.readouterr().err


def test_the_rule_says_what_its_golden_file_says(tmp_path: Path) -> None:
    golden = HERE.parent / "rules" / "golden" / "P326.txt"
    reason = Reason(
        "crash", 0, "stage 4 map(caption) raises an exception", "s/0.tar", "000003", 512
    )
    facts: dict[str, Any] = {"reader": "pipeline", "title": "train.py:make", "reasons": (reason,)}
    outcomes = ("crashes", "stalls", "loses", "not judged", "trains")
    verdicts = [factories.verdict(outcome, usable=20, **facts) for outcome in outcomes]

    text = shown(run_rules(Context(Evidence("full"), (), verdicts), ["P326"])[0], tmp_path)
    check_file(golden, text)


def test_a_pipeline_that_crashes_without_a_loss_is_one_finding(tmp_path: Path) -> None:
    verdict = factories.verdict("crashes", usable=30, reader="pipeline", title="train.py:make")
    assert verdict.samples == 30

    findings, _ = run_rules(Context(Evidence("full"), (), [verdict]), ["P326"])

    assert [finding.count for finding in findings] == [1]


def test_what_a_report_says_is_what_the_pipeline_really_does(tmp_path: Path) -> None:
    assert list(differences("captions", range(1, 3), tmp_path, module="small_pipelines")) == []


@pytest.mark.deep
@pytest.mark.webdataset
@pytest.mark.parametrize(
    ("module", "name"),
    [
        *(
            ("user_pipelines", name)
            for name in "tolerant strict selecting json_captions short_captions".split()
        ),
        *(
            ("user_pipelines", name)
            for name in "stops_at_errors composed web_loader plain loader generator".split()
        ),
        *(("wild_pipelines", name) for name in "map_dict map_tuple sliced shuffled".split()),
        *(("wild_pipelines", name) for name in "loader_with_workers torch_loader".split()),
        *(("worker_pipelines", name) for name in "two_workers by_hand whole_batches".split()),
        *(
            ("dataset_pipelines", name)
            for name in "Pairs pairs_loader batch_sampler keyed_loader".split()
        ),
        *(
            ("dataset_pipelines", name)
            for name in "views collated collated_whole listed collated_inside".split()
        ),
    ],
)
def test_what_a_report_says_is_what_the_pipeline_really_does_on_many_sets(
    module: str, name: str, tmp_path: Path
) -> None:
    assert list(differences(name, range(100, 106), tmp_path, module=module)) == []


@pytest.mark.deep
@pytest.mark.parametrize("name", ["streaming", "stored", "stored_loader"])
def test_what_a_report_says_of_datasets_is_what_they_really_do(name: str, tmp_path: Path) -> None:
    assert list(differences(name, range(4), tmp_path, module="dataset_pipelines")) == []


TWICE = """
import webdataset as wds

def twice(samples):
    for sample in samples:
        yield sample
        yield sample

def make(urls):
    return wds.WebDataset(urls, shardshuffle=False).compose(twice)
"""


@pytest.mark.webdataset
def test_a_stage_that_gives_samples_twice_is_named_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    forty(tmp_path)
    Path("twice.py").write_text(TWICE)

    assert run("{0..3}.tar", "--pipeline", "twice.py:make", "--ignore", "F,I") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "TRAINS 40 of 40 samples" in text
    assert (
        "twice makes 80 elements of 40 samples: samples come out more than once, or in parts (twice.py:4)"
        in text
    )
