"""Runs a pipeline stage by stage over real samples, and reports each stage's losses and cost."""

import contextvars
import ctypes
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import cast

from .logged_warnings import counting_warnings
from .meter import Meter, metered
from .pipeline_steps import take_apart
from .random_state import same_random_state
from .stage_trace import RunningStage, StageTrace
from .trace_run import Stopped, TraceRun
from .trace_table import logged_warnings, swallowed_errors, table
from .trace_verdict import TraceEnd, verdict_of

# Seconds for a run to notice that its time is up.
_GRACE = 0.5
# What a note says of the ends that are no fault.
_END_NOTES: dict[TraceEnd, str] = {
    "pass": "one full pass over the source",
    "samples": "ended by the trace after enough samples",
    "time": "ended by the time limit",
}


@dataclass(frozen=True, slots=True)
class Trace:
    """The samples in a pipeline, stage by stage.

    ``str()`` of it is a table with the verdict on top.
    """

    verdict: str
    # Why the run ended: one full pass, enough samples, time, ...
    ending: TraceEnd
    stages: tuple[StageTrace, ...]
    seconds: float
    # It yielded output, and no stage raised, blocked or dropped everything.
    ok: bool
    notes: tuple[str, ...] = field(default=())

    @property
    def samples(self) -> int:
        """Output samples of the first stage with samples."""
        return next((stage.out for stage in self.stages if stage.kind == "sample"), 0)

    @property
    def delivered(self) -> int:
        """Items (samples or batches) that left the last stage."""
        return self.stages[-1].out

    def __str__(self) -> str:
        lines = [self.verdict, *self.notes, "", *table(self.stages)]
        for stage in self.stages:
            if stage.errors:
                lines.append(f"stage {stage.number}: {swallowed_errors(stage)}")
            elif stage.logged:
                lines.append(f"stage {stage.number} {logged_warnings(stage)}")
        return "\n".join(line.rstrip() for line in lines)


def trace(pipeline: object, samples: int = 1000, seconds: float = 20.0) -> Trace:
    """Run a pipeline and count what each stage consumes, yields and drops.

    It runs in this process, for at most one pass.

    ``with_epoch`` and ``repeat`` are ignored: a second pass would count the same samples again.

    Args:
        pipeline: a ``wds.DataPipeline``, ``WebDataset``, ``WebLoader``, torch ``DataLoader``,
            OpenCLIP's ``DataInfo``, or a list of stages (first the source, then callables from
            iterator to iterator). A loader's worker processes are not started: its stages run here,
            as one worker with all shards.
        samples: the input ends after that many samples, as if the shards ended there; buffers then
            empty.
        seconds: time limit. The input ends at three quarters of it, the run at all of it. A stage
            that blocks stays in a daemon thread.

    Returns:
        A ``Trace``. ``str()`` of it is the verdict and a table.

    The object is not changed: stages run as shallow copies, and global random generators are
    restored. State deeper inside a stage, or an iterator given as source, advances as in an
    ordinary pass.

    Raises:
        TypeError: not a pipeline.
        ValueError: ``samples`` or ``seconds`` is not positive.
    """
    if samples < 1 or seconds <= 0:
        raise ValueError("samples and seconds must be positive")
    with same_random_state():
        return _observe(TraceRun(take_apart(pipeline), samples, seconds))


def _observe(run: TraceRun) -> Trace:
    """Run a chain in a thread, within its time limit, and return the counts of its meters."""
    # The thread sees the context variables of the caller, and changes none of them.
    context = contextvars.copy_context()
    endings: list[TraceEnd] = []

    def run_and_close() -> None:
        meters: list[Meter] = []
        with suppress(Stopped):
            endings.append(context.run(_run_stages, run, meters))
            context.run(_close, meters)

    thread = threading.Thread(target=run_and_close, name="wdsflow-trace", daemon=True)
    with counting_warnings(run, thread):
        try:
            thread.start()
            thread.join(run.seconds + _GRACE)
            # Slow closing does not affect the verdict.
            if thread.is_alive() and not endings:
                run.blocked = (run.running, time.monotonic() - run.running_since)
                _raise_in(thread)
                thread.join(_GRACE)
        finally:
            # Also after Ctrl-C: the thread ends at its next item.
            run.stopping = True
    if run.blocked or not endings:
        return _result(run, "asks-ended-source" if run.endless_at >= 0 else "blocked")
    return _result(run, endings[0])


def _raise_in(thread: threading.Thread) -> None:
    """End a stage that computes without output, but not one that waits for input."""
    thread_id = ctypes.c_ulong(thread.ident or 0)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(thread_id, ctypes.py_object(Stopped))


def _run_stages(run: TraceRun, meters: list[Meter]) -> TraceEnd:
    """Build the chain with a meter after each stage, and read from the last one.

    The meters are added to ``meters``.
    """
    try:
        for index in range(len(run.chain.steps)):
            # The source gets no input.
            inputs = meters[-1:]
            meters.append(cast("Meter", metered(run, index)(*inputs)))
        for count, _ in enumerate(meters[-1], 1):
            if count >= run.samples:
                run.end_reason = run.end_reason or "samples"
                break
    except Stopped:
        pass
    except BaseException as error:  # noqa: BLE001 - it is reported as the verdict
        if run.raised is None or run.raised[1] is not error:
            run.raised = (max(0, len(meters) - 1), error)
        return "raised"
    # A later stage swallowed what this one raised.
    if run.raised:
        run.count_swallowed_error(*run.raised)
    return run.end_reason or "pass"


def _close(meters: Sequence[Meter]) -> None:
    for meter in reversed(meters):
        try:
            meter.close()
        except (Exception, Stopped):  # noqa: BLE001 - a stage that fails when it is closed has been judged already
            continue


def _result(run: TraceRun, ending: TraceEnd) -> Trace:
    """Return the trace of a run that has ended."""
    stages: list[StageTrace] = []
    before: RunningStage | None = None
    for stage in run.stages[:-1]:
        stages.append(_with_input(stage, before))
        before = stage
    if run.blocked is not None:
        index, seconds = run.blocked
        if 0 <= index < len(stages):
            # Until now, it has not been switched away from.
            stages[index].seconds = max(stages[index].seconds, seconds)
    is_fault = ending in ("raised", "blocked", "asks-ended-source")
    notes: tuple[str, ...] = ()
    if ending in _END_NOTES:
        note = _END_NOTES[ending]
        workers = run.chain.workers
        if workers > 1:
            note += f"; the loader itself would split the shards over {workers} workers"
        notes = (note,)
    return Trace(
        verdict=verdict_of(run, stages, ending),
        ending=ending,
        stages=tuple(stages),
        seconds=time.monotonic() - run.started,
        ok=stages[-1].out > 0 and not is_fault,
        notes=notes,
    )


def _with_input(stage: RunningStage, before: RunningStage | None) -> StageTrace:
    """Return a copy of a stage with the output of the stage before it as its input.

    The fields are those of the input.
    """
    source = before or stage
    fields = sorted(source.fields.items(), key=lambda field: -field[1])
    return replace(
        stage,
        inputs=before.out if before else 0,
        input_kind=before.kind if before else "",
        error_types=dict(stage.error_types),
        fields=dict(fields),
    )
