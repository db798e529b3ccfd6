import io
import json
import os
import re
import tarfile
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests import factories
from tests.validate.pipeline.really import PROBES_ONLY, differences, jpeg, least, scanned
from tests.validate.rules.build import shown
from wdsflow.cli.main import main
from wdsflow.scan.evidence import Evidence
from wdsflow.validate.pipeline import probe_process
from wdsflow.validate.pipeline.fates import bounds
from wdsflow.validate.pipeline.load_pipeline import PipelineError
from wdsflow.validate.pipeline.probe_pipeline import ProbeLimits, probe_pipeline
from wdsflow.validate.rules.kit.base import Context
from wdsflow.validate.rules.rule_catalog import run_rules
from wdsflow.validate.run_check import check
from wdsflow.validate.verdicts.verdict import Reason, Verdict

HERE = Path(__file__).parent
SMALL = HERE / "small_pipelines.py"
LIBRARY = HERE / "user_pipelines.py"
EXACT = (
    "tolerant",
    "strict",
    "selecting",
    "json_captions",
    "short_captions",
    "stops_at_errors",
    "composed",
    "web_loader",
)
OTHERS = ("plain", "loader", "generator")


def write(path: Path, samples: int, missing: int = 0, start: int = 0, picture: bytes = b"x") -> str:
    """Write samples of a picture and a caption of up to 12 characters; ``missing``: every so many lacks its caption."""
    with tarfile.open(path, "w") as tar:
        for number in range(start, start + samples):
            fields = {"jpg": picture, "txt": b"a" * (number % 12 + 1)}
            if missing and number % missing == missing - 1:
                del fields["txt"]
            for field, data in fields.items():
                info = tarfile.TarInfo(f"{number:06d}.{field}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    return str(path)


def judged(name: str, urls: list[str], limits: ProbeLimits | None = None) -> Verdict:
    return probe_pipeline(f"{SMALL}:{name}", *scanned(urls), limits=limits)


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["validate", *words])
    return int(ended.value.code or 0)


def test_a_pipeline_is_judged_by_what_it_does_with_real_samples(tmp_path: Path) -> None:
    urls = [write(tmp_path / "0.tar", 40, missing=4)]

    verdict = judged("captions", urls)

    assert (verdict.outcome, verdict.usable, verdict.least, verdict.samples) == ("loses", 30, None, 40)
    assert [(reason.slug, reason.count, reason.key) for reason in verdict.reasons] == [("dropped", 10, "000003")]


@pytest.mark.webdataset
def test_the_numbers_of_all_reasons_are_those_of_the_samples_that_are_lost(tmp_path: Path) -> None:
    texts = [[b"long enough", b"no\xff", b"abc"][number % 7 % 3] if number % 10 else None for number in range(120)]
    with tarfile.open(tmp_path / "0.tar", "w") as tar:
        for number, text in enumerate(texts):
            for field, data in {"jpg": b"x", "txt": text}.items():
                if data is not None:
                    info = tarfile.TarInfo(f"{number:06d}.{field}")
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))

    verdict = probe_pipeline(f"{LIBRARY}:many_reasons", *scanned([str(tmp_path / "0.tar")], "headers"))

    assert verdict.usable == texts.count(b"long enough")
    types = [re.search(r"\((\w+Error)", reason.message) for reason in verdict.reasons]
    told = {found and found[1]: reason.count for found, reason in zip(types, verdict.reasons, strict=True)}
    assert sum(told.values()) == 120 - verdict.usable
    assert told["UnicodeDecodeError"] == texts.count(b"no\xff")
    assert told["KeyError"] == texts.count(None)
    assert verdict.lost == {"dropped": 120 - verdict.usable}


@pytest.mark.deep
@pytest.mark.webdataset
def test_errors_are_reported_without_addresses_of_objects_and_without_the_pauses_of_webdatasets_handlers(
    tmp_path: Path,
) -> None:
    url = write(tmp_path / "0.tar", 120)
    started = time.monotonic()

    verdict = probe_pipeline(f"{LIBRARY}:warns", *scanned([url]))

    assert "(ValueError: <_io.StringIO object>, " in verdict.reasons[0].message
    assert time.monotonic() - started < 60  # the pauses alone: half a second for each of 120 samples in two passes


@pytest.mark.deep
def test_the_first_probes_of_many_shapes_end_in_time(tmp_path: Path) -> None:
    url = str(tmp_path / "0.tar")
    with tarfile.open(url, "w") as tar:
        for number in range(40):
            tar.addfile(tarfile.TarInfo(f"{number:06d}.field{number}"))
    started = time.monotonic()

    verdict = judged("sleepy", [url], ProbeLimits(first_seconds=2, all_seconds=1, whole_seconds=0))

    assert time.monotonic() - started < 15  # all samples alone: 40 seconds
    assert (verdict.outcome, least(verdict), verdict.usable) == ("not known", 0, 40)
    assert "not every sample was probed" in verdict.note


def test_an_exception_is_reported_with_the_line_of_the_user_and_the_sample(tmp_path: Path) -> None:
    verdict = judged("strict", [write(tmp_path / "0.tar", 8, missing=4)])

    line = next(n for n, text in enumerate(SMALL.read_text().splitlines(), 1) if 'yield sample["txt"]' in text)
    line = line if "def strict" in SMALL.read_text().splitlines()[line - 3] else line + 5
    assert (verdict.outcome, verdict.usable) == ("crashes", 3)
    assert f"small_pipelines.py:{line}" in verdict.reasons[0].message
    assert "KeyError: 'txt'" in verdict.reasons[0].message


@pytest.mark.deep
@pytest.mark.webdataset
def test_where_contents_decide_in_a_large_set_the_answer_is_a_range_that_holds_the_number(tmp_path: Path) -> None:
    urls = [write(tmp_path / f"{shard}.tar", 300, start=300 * shard) for shard in range(4)]

    verdict = judged("long_only", urls, ProbeLimits(whole_seconds=0, samples=120))

    assert verdict.least is not None
    assert 0 < verdict.least <= 600 <= verdict.usable < 1200
    assert "fare differently" in verdict.note


def test_a_sample_that_ends_the_stream_silently_leaves_the_number_open(tmp_path: Path) -> None:
    urls = [write(tmp_path / "0.tar", 40, missing=20), write(tmp_path / "1.tar", 40, start=40)]

    assert judged("stops", urls).usable == 19
    guessed = judged("stops", urls, PROBES_ONLY)
    assert least(guessed) <= 19 <= guessed.usable
    assert "ends-stream" in {reason.slug for reason in guessed.reasons}


@pytest.mark.deep
@pytest.mark.parametrize(("limits", "expected"), [(None, False), (PROBES_ONLY, True)])
def test_an_exception_may_come_after_the_end_of_reading(
    limits: ProbeLimits | None, expected: bool, tmp_path: Path
) -> None:
    urls = [write(tmp_path / "0.tar", 1), write(tmp_path / "1.tar", 6, missing=3, start=3, picture=jpeg())]

    verdict = probe_pipeline(f"{LIBRARY}:stops_or_raises", *scanned(urls), limits=limits)

    assert least(verdict) == 0
    assert ("unless reading stops before" in verdict.reasons[0].message) is expected
    assert (verdict.outcome == "crashes") is expected


@pytest.mark.deep
def test_samples_in_batches_of_its_own_making_are_counted_where_all_are_read(tmp_path: Path) -> None:
    urls = [write(tmp_path / "0.tar", 42)]

    verdict = judged("batches", urls)
    assert (verdict.outcome, least(verdict), verdict.usable) == ("trains", 40, 40)
    verdict = judged("batches", urls, PROBES_ONLY)
    assert (verdict.outcome, least(verdict), verdict.usable) == ("not known", 0, 42)


def test_a_probe_that_hangs_is_killed_at_its_limit(tmp_path: Path) -> None:
    limits = ProbeLimits(seconds=0.5, first_run=2.0, per_shape=1)

    verdict = judged("hangs", [write(tmp_path / "0.tar", 8, missing=4)], limits)

    assert verdict.outcome == "stalls"
    assert not [each for each in psutil.Process().children(recursive=True) if "probe_child" in " ".join(each.cmdline())]


@pytest.mark.parametrize("name", ["loads_while_built", "loads_at_its_first_sample", "loads_at_its_second_sample"])
def test_one_that_takes_longer_than_the_limit_of_a_probe_does_not_hang(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe_process, "_GRACE", 0.2)
    limits = ProbeLimits(seconds=0.2, per_shape=2)

    verdict = judged(name, [write(tmp_path / "0.tar", 4)], limits)

    assert (verdict.outcome, verdict.usable) == ("trains", 4)


@pytest.mark.parametrize("level", ["full", "headers"])
def test_one_that_is_built_for_a_probe_but_not_for_all_shards_in_time_is_judged(
    level: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe_process, "_GRACE", 0.2)
    limits = ProbeLimits(seconds=0.2, first_run=0.5, per_shape=1, whole_seconds=0.5)
    urls = [write(tmp_path / f"{number}.tar", 4, start=4 * number) for number in range(2)]

    verdict = probe_pipeline(f"{SMALL}:builds_slowly_for_several", *scanned(urls, level), limits=limits)

    assert (verdict.outcome, verdict.usable) == ("trains", 8)


def test_a_hang_is_noted_when_the_time_for_probes_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe_process, "_GRACE", 0.2)
    limits = ProbeLimits(seconds=0.2, first_run=1.0, first_seconds=0.5, per_shape=1, whole_seconds=5)

    verdict = judged("hangs", [write(tmp_path / "0.tar", 4, missing=1)], limits)

    assert verdict.outcome == "stalls"
    assert verdict.reasons[-1].count == 4


def test_an_object_that_names_its_own_shards_reads_the_given_ones(tmp_path: Path) -> None:
    assert judged("own", [write(tmp_path / "0.tar", 5)]).usable == 5


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("code", "name", "said"),
    [
        ("import json\n\n1 / 0", "make", "broken.py:3: ZeroDivisionError"),
        ("def make(urls):\n    return urls.nothing", "make", "broken.py:2: AttributeError"),
        ("def make(urls:\n", "make", "broken.py:1:"),
        ("def make(urls):\n    return 5", "make", "not a pipeline: int"),
        ("def make(urls): ...", "mkae", "has no mkae; it has: make"),
    ],
)
def test_errors_in_the_users_code_have_their_line_and_exit_status_2(
    code: str, name: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "broken.py"
    path.write_text(code)

    assert run(write(tmp_path / "0.tar", 3), "--pipeline", f"{path}:{name}") == 2
    assert said in capsys.readouterr().err


def test_the_verdict_on_a_pipeline_stands_in_every_report_next_to_those_of_readers(tmp_path: Path) -> None:
    from wdsflow.validate.report import render

    url = write(tmp_path / "0.tar", 40, missing=4)
    report = check(url, ["open-clip-3.3"], pipeline=f"{SMALL}:captions")

    assert [verdict.reader for verdict in report.verdicts] == ["open-clip-3.3", "pipeline"]
    assert "P326" in {finding.code for finding in report.findings}
    for form in ("text", "json", "sarif", "github", "html"):
        assert "small_pipelines" in render(report, form), form
    last = json.loads(render(report, "json"))["verdicts"][-1]
    assert (last["least"], last["usable"]) == (30, 30)


def test_the_rule_says_what_its_golden_file_says(tmp_path: Path) -> None:
    golden = HERE.parent / "rules" / "golden" / "P326.txt"
    reason = Reason("crash", 0, "stage 4 map(caption) raises an exception", "s/0.tar", "000003", 512)
    facts: dict[str, Any] = {"reader": "pipeline", "title": "train.py:make", "reasons": (reason,)}
    verdicts = [
        factories.verdict(outcome, usable=20, **facts)
        for outcome in ("crashes", "stalls", "loses", "not known", "trains")
    ]

    text = shown(run_rules(Context(Evidence("full"), (), verdicts), ["P326"])[0], tmp_path)
    if os.environ.get("WDSFLOW_UPDATE_GOLDENS"):
        golden.write_text(text, encoding="utf-8")

    assert text == golden.read_text(encoding="utf-8")


@pytest.mark.deep
def test_the_report_claims_no_more_than_the_range_and_does_not_call_losses_silent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(write(tmp_path / "0.tar", 12, missing=4), "--pipeline", f"{SMALL}:batches")
    assert "12 samples -> 12 in batches" in capsys.readouterr().out

    run(write(tmp_path / "0.tar", 12, missing=4), "--pipeline", f"{SMALL}:captions")
    text = capsys.readouterr().out
    assert "12 samples -> 9 in batches" in text
    assert "it runs, on fewer samples" in text
    assert "silent" not in text


def test_a_pipeline_alone_is_the_only_reader(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(write(tmp_path / "0.tar", 8), "--pipeline", f"{SMALL}:captions", "--format", "json")

    verdicts = json.loads(capsys.readouterr().out)["verdicts"]
    assert [(each["reader"], each["outcome"], each["usable"]) for each in verdicts] == [("pipeline", "trains", 8)]


def test_a_pipeline_that_cannot_be_pointed_at_other_shards_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"not a pipeline|def make"):
        judged("nothing", [write(tmp_path / "0.tar", 3)])


@pytest.mark.parametrize(("hits", "tried"), [(0, 10), (3, 10), (10, 10)])
def test_bounds_hold_the_share_that_was_seen(hits: int, tried: int) -> None:
    low, high = bounds(hits, tried, 1000)

    assert low <= 100 * hits <= high
    assert (low == 0) == (hits == 0)
    assert (high == 1000) == (hits == tried)


def test_the_prediction_is_what_the_pipeline_really_does(tmp_path: Path) -> None:
    assert list(differences("tolerant", range(1, 2), tmp_path, exact=True)) == []


@pytest.mark.deep
@pytest.mark.webdataset
@pytest.mark.parametrize("name", [*EXACT, *OTHERS])
def test_the_prediction_is_what_the_pipeline_really_does_on_many_sets(name: str, tmp_path: Path) -> None:
    assert list(differences(name, range(40), tmp_path, exact=name in EXACT)) == []
