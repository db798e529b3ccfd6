"""An outcome is claimed only if it holds at both ends of the range; otherwise it is not known."""

import io
import json
import tarfile
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest
import webdataset
from PIL import Image

from tests.validate.pipeline.really import jpeg, least, probing, scanned
from tests.validate.pipeline.test_probe_pipeline import judged, run, write
from wdsflow.scan.evidence import Evidence, ScanOptions
from wdsflow.scan.scan import scan_shard
from wdsflow.validate.pipeline.fates import Estimate, bounds
from wdsflow.validate.pipeline.load_pipeline import PipelineError
from wdsflow.validate.pipeline.probe_pipeline import ProbeLimits, probe_pipeline
from wdsflow.validate.pipeline.probe_process import ProbeProcess, ProbeRun
from wdsflow.validate.pipeline.probe_samples import MOST_BYTES, SamplePlace, TinyTars, add_places, shape_groups
from wdsflow.validate.report import render
from wdsflow.validate.run_check import check

SMALL = Path(__file__).parent / "small_pipelines.py"
FEW = ProbeLimits(whole_seconds=0, per_shape=1, samples=4)


def strip(width: int, height: int) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (width, height)).save(buffer, "JPEG")
    return buffer.getvalue()


def captions(path: Path, samples: int, odd: dict[int, dict[str, bytes]], **more: bytes) -> str:
    """Write samples of a picture and a caption in json, and ``more`` fields; ``odd`` has other ones for some of them."""
    with tarfile.open(path, "w") as tar:
        for number in range(samples):
            fields = {"jpg": jpeg(), "json": json.dumps({"caption": f"cat {number}", "width": 8}).encode()}
            fields |= more | odd.get(number, {})
            for field, data in fields.items():
                info = tarfile.TarInfo(f"{number:06d}.{field}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    return str(path)


@pytest.mark.parametrize(
    ("least", "most", "unread", "outcome"),
    [
        (96, 100, False, "trains"),
        (95, 95, False, "trains"),
        (94, 100, False, "not known"),
        (96, 100, True, "not known"),
        (40, 94, False, "loses"),
        (0, 94, True, "not known"),
        (0, 0, False, "loses"),
    ],
)
def test_an_outcome_holds_at_both_ends_of_the_range(least: int, most: int, unread: bool, outcome: str) -> None:
    assert Estimate(least, most, most, open=unread).outcome(100, 0.05, repeats=False) == outcome


def test_what_is_not_known_passes_no_max_loss_and_what_raises_is_no_range() -> None:
    assert Estimate(0, 9, 9, open=True).outcome(9, 1.0, repeats=False) == "not known"
    assert Estimate(0, 9, 9, open=True, crash=ProbeRun("raised")).outcome(9, 1.0, repeats=False) == "crashes"
    assert Estimate(0, 0, 5).outcome(100, 0.05, repeats=True) == "not known"  # it may hang
    assert Estimate(0, 0, 0).outcome(100, 0.05, repeats=True) == "stalls"


def test_reading_in_order_finds_what_probes_of_single_samples_cannot(tmp_path: Path) -> None:
    urls = [write(tmp_path / "0.tar", 40, missing=5)]

    verdict = judged("swallows", urls)
    assert (verdict.outcome, verdict.usable, verdict.least) == ("loses", 4, None)

    verdict = judged("first_seven", urls)
    assert (verdict.outcome, verdict.usable, verdict.least) == ("loses", 7, None)
    assert "its own code skips some, or ends early" in verdict.reasons[0].message


def test_a_generator_of_which_nothing_comes_out_for_one_sample_is_counted_in_order(tmp_path: Path) -> None:
    verdict = judged("skips_first", [write(tmp_path / "0.tar", 40)])
    assert (verdict.outcome, verdict.usable, verdict.least) == ("trains", 39, None)
    assert [reason.count for reason in verdict.reasons] == [1]
    assert "its own code skips some, or ends early" in verdict.reasons[0].message

    verdict = judged("middle", [write(tmp_path / "1.tar", 150)])
    assert (verdict.outcome, verdict.usable, verdict.least) == ("loses", 50, None)


def test_what_may_be_batches_is_a_range_from_their_number(tmp_path: Path) -> None:
    verdict = judged("twos", [write(tmp_path / "0.tar", 40)])

    assert (verdict.outcome, verdict.least, verdict.usable) == ("not known", 20, 40)
    assert [reason.slug for reason in verdict.reasons] == ["not-known"]
    assert "perhaps it gives batches" in verdict.reasons[0].message


@pytest.mark.webdataset
def test_batches_that_a_stage_of_the_user_makes_are_not_taken_for_samples(tmp_path: Path) -> None:
    verdict = judged("lists", [write(tmp_path / "0.tar", 42)])

    assert (verdict.outcome, verdict.least, verdict.usable) == ("not known", 10, 42)


def test_a_rare_sample_that_is_lost_is_named_and_those_that_were_not_probed_are_counted(tmp_path: Path) -> None:
    url = captions(tmp_path / "0.tar", 60, {37: {"jpg": jpeg()[:-40], "txt": b""}})
    options = ScanOptions("headers", varieties=True)
    evidence = Evidence("headers", [scan_shard(url, options)])

    with ProbeProcess(f"{SMALL}:readable") as process:
        verdict = probe_pipeline(process, evidence, options)
        probed = probe_pipeline(process, evidence, options, limits=replace(FEW, shapes=1))

    assert (verdict.outcome, verdict.usable, verdict.least) == ("trains", 59, None)
    assert [(reason.slug, reason.count, reason.key) for reason in verdict.reasons] == [("dropped", 1, "000037")]
    assert "1 sample of rare shapes, not probed" in probed.reasons[0].message


@pytest.mark.webdataset
def test_samples_that_share_a_key_where_shards_meet_are_a_reason(tmp_path: Path) -> None:
    urls = [write(tmp_path / f"{number}.tar", 10, start=9 * number) for number in range(3)]

    verdict = judged("ordinary", urls)

    if not webdataset.__version__.startswith("0."):  # newer ones end a sample where its shard ends
        assert (verdict.usable, verdict.least, verdict.samples) == (30, None, 30)
        return
    assert (verdict.usable, verdict.least, verdict.samples) == (28, None, 30)
    assert [reason.count for reason in verdict.reasons] == [2]
    assert "they begin a shard, with the key with which the one before ends" in verdict.reasons[0].message


@pytest.mark.webdataset
def test_a_sample_after_those_that_a_slice_takes_ends_no_run(tmp_path: Path) -> None:
    odd = {"json": b'{"title": "cat"}'}
    options = ScanOptions("headers", varieties=True)
    outcomes = {}
    with probing("strict_beginning", "small_pipelines") as process:
        for number in (49, 50):
            url = captions(tmp_path / f"{number}.tar", 150, {number: odd})
            evidence = Evidence("headers", [scan_shard(url, options)])
            outcomes[number] = probe_pipeline(process, evidence, options, limits=FEW).outcome

    assert outcomes == {49: "crashes", 50: "not known"}


def test_code_that_may_end_at_any_sample_is_not_known_where_not_all_were_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = write(tmp_path / "0.tar", 40)

    verdict = judged("strict", [url], FEW)

    assert (verdict.outcome, least(verdict), verdict.usable) == ("not known", 0, 40)
    assert "may end the run at one of the samples that were not read" in verdict.reasons[0].message
    assert "--level full" not in verdict.reasons[0].message  # it is the level at hand


def test_every_report_knows_that_it_is_not_known(tmp_path: Path) -> None:
    report = check(write(tmp_path / "0.tar", 40), [], pipeline=f"{SMALL}:by_chance")

    assert [verdict.outcome for verdict in report.verdicts] == ["not known"]
    assert (report.ok, report.exit_status) == (False, 1)
    assert "P326" in {finding.code for finding in report.errors}
    for form in ("json", "sarif", "github", "html"):
        assert "not known" in render(report, form), form
    assert "NOT KNOWN  " in render(report, "text")
    assert "::error title=" in render(report, "github")


@pytest.mark.parametrize(
    ("name", "odd", "error"),
    [
        ("captioned", {"json": b'{"title": "cat"}'}, "KeyError: 'caption'"),
        ("captioned", {"json": b'{"caption": null}'}, "AttributeError"),
        ("whole_pictures", {"jpg": jpeg()[:-40]}, "ValueError: cut"),
        ("no_strips", {"jpg": strip(50, 1)}, "ZeroDivisionError"),
    ],
)
def test_the_one_sample_in_many_that_raises_is_probed(
    name: str, odd: dict[str, bytes], error: str, tmp_path: Path
) -> None:
    url = captions(tmp_path / "0.tar", 150, {97: odd})
    options = ScanOptions("headers", varieties=True)

    verdict = probe_pipeline(f"{SMALL}:{name}", Evidence("headers", [scan_shard(url, options)]), options, limits=FEW)

    assert (verdict.outcome, verdict.reasons[0].key) == ("crashes", "000097")
    assert error in verdict.reasons[0].message


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("forgets", "forgets returned None: is a return missing?"),
        ("pairs", "pairs returned a tuple of 2 pipelines; return the one to judge"),
    ],
)
def test_a_function_that_returns_no_single_pipeline_is_refused_with_words(name: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(PipelineError) as refused:
        judged(name, [write(tmp_path / "0.tar", 3)])
    assert str(refused.value) == said


def test_a_file_that_parses_a_command_line_is_refused_with_what_that_lacks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = tmp_path / "train.py"
    code.write_text(
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--data', required=True)\np.parse_args()"
    )

    assert run(write(tmp_path / "0.tar", 3), "--pipeline", f"{code}:make") == 2
    assert "it parses a command line when imported (--data is required)" in capsys.readouterr().err


@pytest.mark.webdataset
def test_a_slice_is_named_and_counts_batches_as_such(tmp_path: Path) -> None:
    code, url = tmp_path / "train.py", write(tmp_path / "0.tar", 40)
    make = 'def make(urls): return wds.WebDataset(urls, shardshuffle=False).to_tuple("jpg").batched(4).slice(3)'
    code.write_text(f"import webdataset as wds\n{make}")

    with ProbeProcess(f"{code}:make") as process:
        verdict = probe_pipeline(process, *scanned([url]))
        assert probe_pipeline(process, *scanned([url]), limits=FEW).usable == 12

    assert (verdict.outcome, verdict.usable, verdict.least) == ("loses", 12, None)
    assert "28 of 40 samples: the pipeline ends after 12 samples: stage " in verdict.reasons[0].message


@pytest.mark.deep
@pytest.mark.parametrize("limits", [None, FEW])
def test_a_value_that_datasets_refuses_is_an_exception(limits: ProbeLimits | None, tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    url = captions(tmp_path / "0.tar", 60, {47: {"json": b'{"caption": "cat", "width": "wide"}'}})
    here = SMALL.parent / "dataset_pipelines.py"

    verdict = probe_pipeline(f"{here}:streaming", *scanned([url], "headers"), limits=limits)

    assert verdict.outcome == "crashes"


def test_places_are_drawn_from_all_over_a_shard_and_always_the_same(tmp_path: Path) -> None:
    shards = [scan_shard(write(tmp_path / "0.tar", 60), ScanOptions("headers"))]

    def drawn() -> list[int]:
        (group, *_) = shape_groups(shards)
        add_places([group], shards, ScanOptions("headers"), 100)
        return [place.offset for place in group.places]

    assert len(drawn()) == 60
    assert drawn() == drawn()
    assert drawn() != sorted(drawn())


def test_a_sample_that_is_too_large_is_not_read_into_memory(tmp_path: Path) -> None:
    path = tmp_path / "0.tar"
    with path.open("wb") as file:
        info = tarfile.TarInfo("0.bin")
        info.size = MOST_BYTES + 1
        file.write(info.tobuf())
        file.truncate(512 + MOST_BYTES + 2048)
    (tmp_path / "tars").mkdir()
    tars = TinyTars(tmp_path / "tars", allow_pipe=False)

    tracemalloc.start()
    try:
        assert tars.tar(SamplePlace(str(path), 0, "0")) is None
        assert tracemalloc.get_traced_memory()[1] < MOST_BYTES // 4
    finally:
        tracemalloc.stop()


def test_bounds_are_those_of_clopper_and_pearson_to_the_sample() -> None:
    assert bounds(400, 400, 10_000) == (9828, 10_000)
    assert bounds(0, 400, 10_000) == (0, 172)
    assert bounds(7, 20, 1_000) == (86, 708)


def test_a_damaged_end_that_was_not_tried_counts_neither_as_there_nor_as_lost(tmp_path: Path) -> None:
    whole, cut = write(tmp_path / "0.tar", 10), Path(write(tmp_path / "1.tar", 10, start=10))
    cut.write_bytes(cut.read_bytes()[: 19 * 1024 + 600])
    evidence, options = scanned([whole, str(cut)])

    untried = ProbeLimits(whole_seconds=0, damaged=0)
    verdict = probe_pipeline(f"{SMALL}:patient", evidence, options, limits=untried)

    assert least(verdict) <= 19 <= verdict.usable
    assert "the ends of some damaged shards were not tried" in verdict.note


def test_shards_that_the_function_of_the_pipeline_leaves_out_do_not_count(tmp_path: Path) -> None:
    urls = [captions(tmp_path / f"{number}.tar", 10, {}) for number in range(3)]

    verdict = check(urls, [], pipeline=f"{SMALL}:without_last").verdicts[-1]

    assert (verdict.outcome, verdict.least, verdict.usable, verdict.samples) == ("loses", None, 20, 30)
    assert "leaves their shards out" in verdict.reasons[0].message
