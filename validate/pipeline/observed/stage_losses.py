"""Samples that stages lost: for one reason each, as far as the counts of a run show it."""

from collections.abc import Iterator
from typing import NamedTuple

from ..meters.reported_stage import BLANK, COMBINED, LostSamples, ReportedStage
from ..run.observed_run import ObservedRun


class StageLoss(NamedTuple):
    """Samples that one stage left out for one reason."""

    stage: ReportedStage
    # None: without an exception, and not one by one.
    loss: LostSamples | None
    samples: int


def losses_of(run: ObservedRun, missing: int) -> list[StageLoss]:
    """Return the losses of all stages.

    Args:
        run: that has ended.
        missing: samples that did not come out, the most that a source can have lost of which the
            input is not visible.
    """
    losses: list[StageLoss] = []
    for stage in run.stages:
        gives_and_gets_batches = stage.kind == "batch" and stage.input_kind == "batch"
        if gives_and_gets_batches:
            losses += _lost_batches(run, stage)
        elif stage.number == 1 and stage.blanks and run.read is None:
            losses += _lost_by_source(stage, missing)
        elif stage.input_kind == "sample" and stage.kind in ("", "sample", "batch"):
            losses += _lost_samples(run, stage)
    return losses


def _lost_batches(run: ObservedRun, stage: ReportedStage) -> Iterator[StageLoss]:
    before = run.stages[stage.number - 2]
    if stage.unclear or before.unclear or not stage.ended:
        return
    samples = before.rows - stage.rows
    if samples > 0:
        reasons = list(stage.losses.values())
        # Of several reasons it is not known how many samples each has cost.
        reason = reasons[0] if len(reasons) == 1 else None
        yield StageLoss(stage, reason, samples)


def _lost_by_source(source: ReportedStage, missing: int) -> Iterator[StageLoss]:
    """Yield what a source lost that gave blank elements."""
    if missing > 0:
        yield StageLoss(source, source.losses[BLANK], min(source.blanks, missing))


def _lost_samples(run: ObservedRun, stage: ReportedStage) -> Iterator[StageLoss]:
    """Yield the losses with a reason, and those without one: what went in and did not come out."""
    silent = stage.lost - stage.combined
    for name, loss in stage.losses.items():
        if name != COMBINED:
            yield StageLoss(stage, loss, loss.count)
            silent -= loss.count
    if run.is_limited and stage.batch > 1:
        # Each process had a batch that was not full when reading ended.
        silent -= (stage.batch - 1) * max(1, run.workers)
    # Before its end, they may still be in a buffer.
    if silent > 0 and stage.ended:
        yield StageLoss(stage, None, silent)
