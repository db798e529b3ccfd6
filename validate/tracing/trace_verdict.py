"""The verdict of a trace, in one sentence.

It names what stops the pipeline or the largest loss, or says that nothing is lost.
"""

from collections.abc import Sequence
from typing import Literal

from wdsflow.text.words import how_many

from .errors import error_text
from .stage_trace import StageTrace
from .trace_run import TraceRun
from .trace_table import key_and_shard, logged_warnings, swallowed_errors

TraceEnd = Literal["pass", "samples", "time", "blocked", "raised", "asks-ended-source"]

# Fields in a sentence.
_MOST_FIELDS = 8


def verdict_of(run: TraceRun, stages: Sequence[StageTrace], ending: TraceEnd) -> str:
    """Return the verdict on a run.

    Args:
        run: that has ended.
        stages: its stages, with their inputs.
        ending: why it ended.
    """
    if ending == "blocked":
        return _blocked(run, stages)
    if ending == "raised" and run.raised:
        return _raised(run, stages, *run.raised)
    if ending == "asks-ended-source":
        stage = stages[min(run.endless_at, len(stages) - 1)]
        return f"{stage.name} asks its ended input again and again: it would never end"
    if not stages[-1].out:
        return _nothing_left(run, stages, ending)
    worst = max(stages, key=lambda stage: _loss(stage, run, ending))
    if _loss(worst, run, ending):
        return _drops(worst)
    return _nothing_lost(stages, ending)


def _blocked(run: TraceRun, stages: Sequence[StageTrace]) -> str:
    index, seconds = run.blocked or (-1, 0.0)
    if not 0 <= index < len(stages):
        return "the pipeline did not start in time"
    stage = stages[index]
    sample = key_and_shard(*run.last_input(index))
    return (
        f"{stage.name} is blocked: no answer for {seconds:.1f} s{sample}, after {stage.out:,} items"
    )


def _raised(run: TraceRun, stages: Sequence[StageTrace], index: int, error: BaseException) -> str:
    stage = stages[index]
    # The source has none either, but reads samples.
    is_empty = index > 0 and not stage.inputs
    sample = "" if is_empty else key_and_shard(*run.last_input(index))
    text = f"{stage.name} raises {error_text(error)}{sample}: the run would end there"
    if is_empty:
        empty = _last_with_input(stages[:index])
        text += f"; its input was empty, the last stage that got anything is {empty.name}"
    return text


def _last_with_input(stages: Sequence[StageTrace]) -> StageTrace:
    """Return the last stage that got anything, otherwise the source."""
    for stage in reversed(stages):
        if stage.inputs:
            return stage
    return stages[0]


def _nothing_lost(stages: Sequence[StageTrace], ending: TraceEnd) -> str:
    text = "nothing is lost" if ending == "pass" else "nothing is lost so far"
    # A batch that is not full, at the end of a pass.
    last = max(stages, key=lambda stage: stage.lost if stage.kind == "batch" else 0)
    if ending == "pass" and last.kind == "batch" and last.lost:
        text += f" but the last {last.lost:,}, too few for another batch of {last.batch:,}"
    samples = stages[-1].out
    for stage in reversed(stages):
        if stage.kind == "sample":
            samples = stage.out
    slowest = max(stages, key=lambda stage: stage.seconds)
    share = slowest.seconds / (sum(stage.seconds for stage in stages) or 1.0)
    left = f"{how_many(samples, 'sample')}, {how_many(len(stages), 'stage')}"
    return f"{text}: {left}; {slowest.name} takes {share:.0%} of the time"


def _loss(stage: StageTrace, run: TraceRun, ending: TraceEnd) -> int:
    """Return the losses of a stage, without items still in it because the trace ended early."""
    if stage.kind == "batch" and stage.input_kind == "sample":
        # Fewer than a batch remain at the end of a pass.
        return stage.lost if ending == "pass" and stage.lost >= stage.batch else 0
    if run.drained:
        return stage.lost
    # One item may be in any stage, many in the buffer of a shuffle.
    return 0 if "shuffle" in stage.title else max(0, stage.lost - 1)


def _drops(stage: StageTrace) -> str:
    unit = "batches" if stage.input_kind == "batch" else "samples"
    text = f"{stage.name} drops {stage.lost:,} of {stage.inputs:,} {unit}"
    if stage.fields:
        text += f"; fields seen: {_fields(stage)}"
    if stage.errors:
        text += f"; {swallowed_errors(stage)}"
    elif stage.logged:
        text += f"; it {logged_warnings(stage)}"
    if stage.ended_stream:
        text += "; its handler ended the stream there"
    return text


def _fields(stage: StageTrace) -> str:
    """Return the fields of a stage's input, with how many samples have them if not all do."""
    names = []
    for field, samples in stage.fields.items():
        names.append(field if samples == stage.inputs else f"{field} ({samples:,})")
    text = ", ".join(names[:_MOST_FIELDS])
    if len(names) > _MOST_FIELDS:
        text += f" and {len(names) - _MOST_FIELDS} more"
    return text


def _nothing_left(run: TraceRun, stages: Sequence[StageTrace], ending: TraceEnd) -> str:
    """Return which stage gives nothing, and what training would make of that."""
    stage = _last_with_input(stages)
    if ending == "time" and not run.drained:
        return (
            f"{stage.name} took {how_many(stage.inputs, 'item')} and gave none before time was up"
        )
    if stage.number == 1 and not stage.out:
        text = f"{stage.name} gives nothing"
    elif stage.batch > 0 and stage.inputs < stage.batch:
        text = f"{stage.name} gets {how_many(stage.inputs, 'sample')}, too few for one batch of {stage.batch:,}"
        if ending != "pass":
            return f"{text}: nothing is lost so far, trace more samples"
    elif stage.input_kind in ("sample", "batch"):
        text = _drops(stage)
    else:
        inputs = how_many(stage.inputs, stage.input_kind or "item")
        text = f"{stage.name} makes no sample of {inputs}"
        if stage.errors:
            text += f"; {swallowed_errors(stage)}"
    if ending == "time":
        text += "; time was up"
    return text + _endless_reading(run, ending)


def _endless_reading(run: TraceRun, ending: TraceEnd) -> str:
    """Return what a repeating pipeline does if it yields nothing.

    "" if the pipeline does not repeat, or if that is not known.
    """
    if not run.chain.endless or ending not in ("pass", "samples"):
        return ""
    if run.chain.ends_at_empty_pass:
        return "; 0 samples left after one full pass: the epoch ends empty, without an error"
    reader = "OpenCLIP" if run.chain.by_open_clip else "this pipeline"
    if ending == "samples":
        return f"; if the rest is like this, {reader} will read endlessly"
    return f"; 0 samples left after one full pass: {reader} would repeat it endlessly"
