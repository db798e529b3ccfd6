"""How much of a pipeline is read, and what a report says of the end of that."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import webdataset

from tests.validate.pipeline.small_set import forty, judged, write
from wdsflow.validate.pipeline.judge_pipeline import RunLimits
from wdsflow.validate.pipeline.reports.process_position import DATASET, MAIN
from wdsflow.validate.pipeline.reports.sample_counts import SampleCounts
from wdsflow.validate.pipeline.run.pass_limit import PassLimit
from wdsflow.validate.verdicts.verdict import Outcome

# Each starts a process that imports PyTorch.

WHOLE = RunLimits(whole=True)


def pipeline(*stages: object, repetitions: int = 1, nsamples: int = -1) -> Any:
    """Return what looks like a DataPipeline."""
    return SimpleNamespace(
        pipeline=list(stages), invoke=None, repetitions=repetitions, nsamples=nsamples
    )


ENDLESS = 1 << 62
DRAWS = SimpleNamespace(nshards=ENDLESS)


@pytest.mark.parametrize(
    ("made", "limit"),
    [
        (pipeline([]), PassLimit(400)),
        (pipeline([], repetitions=5), PassLimit(2000)),
        (pipeline(pipeline([], repetitions=5), repetitions=2), PassLimit(4000)),
        (pipeline([], repetitions=ENDLESS), PassLimit(120, never_ends=True)),
        (pipeline([], repetitions=ENDLESS, nsamples=7), PassLimit(until_output=120)),
        (pipeline(DRAWS), PassLimit(120, never_ends=True)),
        (pipeline(DRAWS, print), PassLimit(400)),
        (pipeline(DRAWS, repetitions=ENDLESS, nsamples=7), PassLimit(until_output=120)),
        (iter([]), PassLimit(400)),
    ],
)
def test_only_a_pipeline_that_says_it_never_ends_is_ended_early(
    made: object, limit: PassLimit
) -> None:
    assert PassLimit.of(made, 40) == limit


def test_processes_of_one_kind_count_together(tmp_path: Path) -> None:
    one, other = SampleCounts(tmp_path), SampleCounts(tmp_path)

    one.add(DATASET, 3, 1)
    other.add(DATASET, 4, 0)

    assert one.of(DATASET) == other.of(DATASET) == (7, 1)
    assert one.of(MAIN) == (0, 0)


@pytest.mark.webdataset
def test_losses_count_even_if_a_worker_begins_when_others_have_read_all(tmp_path: Path) -> None:
    verdict = judged("observed_pipelines", "late_worker", forty(tmp_path), RunLimits(samples=20))

    assert (verdict.outcome, verdict.usable, verdict.samples) == ("loses", 18, 20)
    assert [(reason.slug, reason.count) for reason in verdict.reasons] == [("dropped", 2)]


def test_a_limit_of_samples_is_one_even_if_it_is_three_passes(tmp_path: Path) -> None:
    verdict = judged(
        "small_pipelines", "endless", [write(tmp_path / "0.tar", 10)], RunLimits(samples=30)
    )

    assert verdict.run is not None
    assert (verdict.run.ended_by, verdict.run.delivered) == ("samples", 30)
    assert "was run until 30 samples were read:" in verdict.note


def test_code_that_had_not_ended_after_many_passes_is_not_said_to_be_endless(
    tmp_path: Path,
) -> None:
    verdict = judged("small_pipelines", "endless", [write(tmp_path / "0.tar", 10)], WHOLE)

    assert verdict.run is not None
    assert (verdict.outcome, verdict.run.ended_by, verdict.samples) == ("not judged", "passes", 100)
    assert "was run until 100 samples were read, and had not ended by then:" in verdict.note


def test_a_late_exception_of_code_that_reads_several_times_is_seen(tmp_path: Path) -> None:
    verdict = judged(
        "small_pipelines", "raises_in_the_fourth_pass", [write(tmp_path / "0.tar", 10)], WHOLE
    )

    assert (verdict.outcome, verdict.usable) == ("crashes", 30)
    assert verdict.funnel is None


@pytest.mark.webdataset
def test_a_late_exception_of_a_pipeline_that_repeats_is_seen(tmp_path: Path) -> None:
    verdict = judged("observed_pipelines", "raises_in_the_fourth_pass", forty(tmp_path), WHOLE)

    assert verdict.run is not None
    assert (verdict.outcome, verdict.run.read) == ("crashes", 121)


@pytest.mark.webdataset
@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("limits", "ended_by"), [(WHOLE, "itself"), (RunLimits(samples=40), "samples")]
)
def test_one_worker_may_read_all_that_may_be_read(
    limits: RunLimits, ended_by: str, tmp_path: Path
) -> None:
    verdict = judged(
        "observed_pipelines", "one_worker_reads_all", [write(tmp_path / "0.tar", 40)], limits
    )

    assert verdict.run is not None
    assert (verdict.outcome, verdict.run.ended_by) == ("trains", ended_by)
    assert (verdict.usable, verdict.samples, verdict.run.read) == (40, 40, 40)


@pytest.mark.deep
@pytest.mark.webdataset
@pytest.mark.parametrize(
    ("name", "read", "said"),
    [
        (
            "repeats_without_end",
            120,
            "until 120 samples were read, because it repeats without end:",
        ),
        (
            "loader_that_repeats",
            120,
            "until 120 samples were read, because it repeats without end:",
        ),
        ("resampled", 600, "to its own end:"),
    ],
)
def test_what_repeats_is_read_to_its_end_if_it_has_one(
    name: str, read: int, said: str, tmp_path: Path
) -> None:
    verdict = judged("observed_pipelines", name, forty(tmp_path), WHOLE)

    assert verdict.run is not None
    assert verdict.outcome == "trains"
    # Each worker looks at what all have read before it reads on.
    assert verdict.run.read in (read, read + 1)
    assert said.replace(str(read), str(verdict.run.read)) in verdict.note


@pytest.mark.deep
@pytest.mark.webdataset
def test_a_batch_that_is_larger_than_what_was_read_does_not_stall(tmp_path: Path) -> None:
    verdict = judged("observed_pipelines", "resampled_batches", forty(tmp_path), WHOLE)

    assert verdict.outcome == "not judged"
    assert "120 samples are too few for one batch of stage" in verdict.reasons[0].message


@pytest.mark.webdataset
def test_an_epoch_into_which_no_sample_comes_stalls(tmp_path: Path) -> None:
    verdict = judged("observed_pipelines", "resampled_nothing", forty(tmp_path), WHOLE)

    assert (verdict.outcome, verdict.samples) == ("stalls", 120)


# Webdataset 1.x ends a pipeline that repeats after a pass without output.
REPEATED = "stalls" if webdataset.__version__.startswith("0.") else "loses"


@pytest.mark.webdataset
@pytest.mark.parametrize(
    ("name", "outcome"), [("repeats_nothing", REPEATED), ("resampled_nothing", "stalls")]
)
def test_what_gives_nothing_stalls_only_once_it_has_read_all_shards(
    name: str, outcome: Outcome, tmp_path: Path
) -> None:
    urls = forty(tmp_path)

    # Of 800 samples, which are 80 draws of a shard, some are surely from each of the four.
    part, more = (
        judged("observed_pipelines", name, urls, RunLimits(samples=samples))
        for samples in (20, 800)
    )

    assert (part.outcome, part.usable, part.samples) == ("loses", 0, 20)
    assert "20 of 20 samples: stage " in part.reasons[0].message
    assert (more.outcome, more.usable) == (outcome, 0)


def test_what_gives_nothing_does_not_stall_while_a_shard_is_not_read(tmp_path: Path) -> None:
    limits = RunLimits(samples=50)

    verdict = judged("observed_pipelines", "repeats_nothing_of_three", forty(tmp_path), limits)

    assert verdict.outcome == "loses"
    assert "it opened 3 of 4 shards" in verdict.note
