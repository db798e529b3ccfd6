"""Runs a pipeline stage by stage over real samples, and reports the losses and the cost of each stage."""

import contextvars
import ctypes
import logging
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Literal, TextIO, cast

from .errors import error_text
from .meter import Meter, StageTrace, Stopped, TraceRun, metered
from .pipeline_steps import same_random_state, take_apart

TraceEnd = Literal["pass", "samples", "time", "blocked", "raised", "asks-ended-source"]
_HOW: dict[TraceEnd, str] = {
    "pass": "one full pass over the source",
    "samples": "ended by the trace after enough samples",
    "time": "ended by the time limit",
}


@dataclass(frozen=True, slots=True)
class Trace:
    """The samples in a pipeline, stage by stage. ``str()`` of it is a table with the verdict on top."""

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
                lines.append(f"stage {stage.number}: {swallowed(stage)}")
            elif stage.logged:
                lines.append(f"stage {stage.number} logged {stage.logged:,} warnings, the first: {stage.first_log}")
        return "\n".join(line.rstrip() for line in lines)


# Characters of a row of the table without the title.
_NUMBERS = 60


def table(stages: Sequence[StageTrace], width: int = 120) -> Iterator[str]:
    """Yield the rows of a table: what entered and left each stage; long titles are cut."""
    wide = min(max(len(stage.title) for stage in stages), width - _NUMBERS)
    yield f"  #  {'stage':<{wide}}  {'in':>9}  {'out':>9}  {'':<7}  {'seconds':>8}  {'swallowed':>9}"
    for stage in stages:
        taken = f"{stage.taken:,}" if stage.number > 1 else "-"
        title = stage.title if len(stage.title) <= wide else stage.title[: wide - 3] + "..."
        yield (
            f"{stage.number:>3}  {title:<{wide}}  {taken:>9}  {stage.out:>9,}  {stage.kind:<7}"
            f"  {stage.seconds:>8.2f}  {stage.errors:>9,}"
        )


def swallowed(stage: StageTrace) -> str:
    """Return ``3 errors swallowed, the first: ...`` with key and shard."""
    count = "1 error swallowed" if stage.errors == 1 else f"{stage.errors:,} errors swallowed, the first"
    return f"{count}: {stage.first_error}{where(stage.error_key, stage.error_shard)}"


def where(key: str, shard: str) -> str:
    """Return key and shard in brackets, empty if neither is known."""
    parts = [f"key {key}" if key else "", f"shard {shard}" if shard else ""]
    text = ", ".join(part for part in parts if part)
    return f" ({text})" if text else ""


# Fields in the message.
_MOST = 8


def sentence(run: TraceRun, stages: Sequence[StageTrace], ending: TraceEnd) -> str:
    """Return the verdict: the stage that stops the pipeline, the largest loss, or that nothing is lost."""
    if ending == "blocked":
        index, waited = run.blocked or (-1, 0.0)
        if not 0 <= index < len(stages):
            return "the pipeline did not start in time"
        text = f"{stages[index].name} is blocked: no answer for {waited:.1f} s"
        return f"{text}{where(*run.place(index))}, after {stages[index].out:,} items"
    if ending == "raised" and run.raised:
        index, error = run.raised
        text = f"{stages[index].name} raises {error_text(error)}{where(*run.place(index))}: the run would end there"
        if index and not stages[index].taken:
            empty = next((stage for stage in reversed(stages[:index]) if stage.taken or stage.number == 1), stages[0])
            text += f"; its input was empty, the last stage that got anything is {empty.name}"
        return text
    if ending == "asks-ended-source":
        at = stages[min(run.endless_at, len(stages) - 1)]
        return f"{at.name} asks its ended input again and again: it would never end"
    if not stages[-1].out:
        return _nothing(run, stages, ending)
    worst = max(stages, key=lambda stage: _loss(stage, run, ending))
    if _loss(worst, run, ending):
        return _drops(worst)
    slowest = max(stages, key=lambda stage: stage.seconds)
    share = slowest.seconds / (sum(stage.seconds for stage in stages) or 1.0)
    count = next((stage.out for stage in stages if stage.kind == "sample"), stages[-1].out)
    what = "nothing is lost" if ending == "pass" else "nothing is lost so far"
    rest = max(stages, key=lambda stage: stage.lost if stage.kind == "batch" else 0)
    if ending == "pass" and rest.kind == "batch" and rest.lost:
        what += f" but the last {rest.lost:,}, too few for another batch of {rest.batch:,}"
    return f"{what}: {count:,} samples, {len(stages)} stages; {slowest.name} takes {share:.0%} of the time"


def _loss(stage: StageTrace, run: TraceRun, ending: TraceEnd) -> int:
    """Return the losses of a stage, without items still in it because the trace ended early."""
    if stage.kind == "batch" and stage.taken_kind == "sample":
        return stage.lost if ending == "pass" and stage.lost >= stage.batch else 0
    if run.drained:
        return stage.lost
    return 0 if "shuffle" in stage.title else max(0, stage.lost - 1)


def _drops(stage: StageTrace) -> str:
    unit = "batches" if stage.taken_kind == "batch" else "samples"
    text = f"{stage.name} drops {stage.lost:,} of {stage.taken:,} {unit}"
    if stage.fields:
        seen = [field if n == stage.taken else f"{field} ({n:,})" for field, n in stage.fields.items()]
        more = f" and {len(seen) - _MOST} more" if len(seen) > _MOST else ""
        text += f"; fields seen: {', '.join(seen[:_MOST])}{more}"
    if stage.errors:
        text += f"; {swallowed(stage)}"
    elif stage.logged:
        text += f"; it logged {stage.logged:,} warnings, the first: {stage.first_log}"
    if stage.ended_stream:
        text += "; its handler ended the stream there"
    return text


def _nothing(run: TraceRun, stages: Sequence[StageTrace], ending: TraceEnd) -> str:
    culprit = next((stage for stage in reversed(stages) if stage.taken), stages[0])
    if ending == "time" and not run.drained:
        return f"{culprit.name} took {culprit.taken:,} items and gave none before time was up"
    if culprit.number == 1 and not culprit.out:
        text = f"{culprit.name} gives nothing"
    elif culprit.batch > 0 and culprit.taken < culprit.batch:
        text = f"{culprit.name} gets {culprit.taken:,} samples, too few for one batch of {culprit.batch:,}"
        if ending != "pass":
            return text + ": nothing is lost so far, trace more samples"
    elif culprit.taken_kind in ("sample", "batch"):
        text = _drops(culprit)
    else:
        text = f"{culprit.name} makes no sample of {culprit.taken:,} {culprit.taken_kind or 'item'}s"
        if culprit.errors:
            text += f"; {swallowed(culprit)}"
    if ending == "time":
        text += "; time was up"
    chain = run.chain
    if not chain.endless or ending not in ("pass", "samples"):
        return text
    if chain.breaks:
        return f"{text}; 0 samples left after one full pass: the epoch ends empty, without an error"
    who = "OpenCLIP" if chain.by_open_clip else "this pipeline"
    if ending == "samples":
        return f"{text}; if the rest is like this, {who} will read endlessly"
    return f"{text}; 0 samples left after one full pass: {who} would repeat it endlessly"


# Seconds for a run to notice that its time is up.
_GRACE = 0.5


def trace(pipeline: object, samples: int = 1000, seconds: float = 20.0) -> Trace:
    """Run a pipeline in this process for at most one pass and count what each stage consumes, yields and drops.

    ``with_epoch`` and ``repeat`` are ignored: a second pass would count the same samples again.

    Args:
        pipeline: a ``wds.DataPipeline``, ``WebDataset``, ``WebLoader``, torch ``DataLoader``, OpenCLIP's
            ``DataInfo``, or a list of stages (first the source, then callables from iterator to iterator).
            A loader's worker processes are not started: its stages run here, as one worker with all shards.
        samples: the input ends after that many samples, as if the shards ended there; buffers then empty.
        seconds: time limit. The input ends at three quarters of it, the run at all of it. A stage that blocks stays in
            a daemon thread.

    Returns:
        A ``Trace``. ``str()`` of it is the verdict and a table.

    The object is not changed: stages run as shallow copies, and global random generators are restored. State deeper
    inside a stage, or an iterator given as source, advances as in an ordinary pass.

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
    context = contextvars.copy_context()
    endings: list[TraceEnd] = []

    def drive() -> None:
        meters: list[Meter] = []
        with suppress(Stopped):
            endings.append(context.run(_drive, run, meters))
            context.run(_close, meters)

    thread = threading.Thread(target=drive, name="wdsflow-trace", daemon=True)
    with listening(run, thread):
        try:
            thread.start()
            thread.join(run.seconds + _GRACE)
            # Slow closing does not affect the verdict.
            if thread.is_alive() and not endings:
                run.blocked = (run.owner, time.monotonic() - run.since)
                # Ends a stage that computes without output, but not one that waits for input.
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(Stopped))
                thread.join(_GRACE)
        finally:
            # Also after Ctrl-C: the thread ends at its next item.
            run.stopping = True
    if run.blocked or not endings:
        return _summary(run, "asks-ended-source" if run.endless_at >= 0 else "blocked")
    return _summary(run, endings[0])


class _Ear(logging.Handler):
    """Counts the warnings that a stage logs while it runs: they suggest errors that it swallows without a handler."""

    def __init__(self, run: TraceRun, thread: threading.Thread) -> None:
        super().__init__(logging.WARNING)
        self.run, self.thread = run, thread

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread == self.thread.ident:
            try:
                message = record.getMessage()
            except Exception:  # noqa: BLE001 - a log call with wrong arguments must not end a run
                message = str(record.msg)
            self.run.seen[self.run.owner].log(message)


@contextmanager
def listening(run: TraceRun, thread: threading.Thread) -> Iterator[None]:
    """Count logs and warnings of ``thread``; restore loggers and warnings afterwards."""
    ear, show = _Ear(run, thread), warnings.showwarning

    def showwarning(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if threading.current_thread() is thread:
            run.seen[run.owner].log(f"{category.__name__}: {message}")
        show(message, category, filename, lineno, file, line)

    root = logging.getLogger()
    root.addHandler(ear)
    warnings.showwarning = showwarning
    try:
        yield
    finally:
        root.removeHandler(ear)
        if warnings.showwarning is showwarning:
            warnings.showwarning = show


def _drive(run: TraceRun, meters: list[Meter]) -> TraceEnd:
    """Build the chain with a meter after each stage and read from it."""
    try:
        for index in range(len(run.chain.steps)):
            meters.append(cast("Meter", metered(run, index)(*meters[-1:])))
        for count, _ in enumerate(meters[-1], 1):
            if count >= run.samples:
                run.reason = run.reason or "samples"
                break
    except Stopped:
        pass
    except BaseException as error:  # noqa: BLE001 - it is reported as the verdict
        if run.raised is None or run.raised[1] is not error:
            run.raised = (max(0, len(meters) - 1), error)
        return "raised"
    # A later stage swallowed what this one raised.
    if run.raised:
        run.swallowed(*run.raised)
    return run.reason or "pass"


def _close(meters: list[Meter]) -> None:
    for meter in reversed(meters):
        try:
            meter.close()
        except (Exception, Stopped):  # noqa: BLE001 - a stage that fails when it is closed has been judged already
            continue


def _summary(run: TraceRun, ending: TraceEnd) -> Trace:
    stages: list[StageTrace] = []
    blocked, waited = run.blocked or (-1, 0.0)
    for index, seen in enumerate(run.seen[:-1]):
        before = run.seen[index - 1] if index else None
        fields = sorted((before or seen).fields.items(), key=lambda each: -each[1])
        stages.append(
            replace(
                seen,
                taken=before.out if before else 0,
                taken_kind=before.kind if before else "",
                seconds=max(seen.seconds, waited if index == blocked else 0.0),
                error_types=dict(seen.error_types),
                fields=dict(fields),
            )
        )
    ok = stages[-1].out > 0 and ending not in ("raised", "blocked", "asks-ended-source")
    notes: tuple[str, ...] = ()
    workers = run.chain.workers
    if how := _HOW.get(ending):
        split = f"; the loader itself would split the shards over {workers} workers" if workers > 1 else ""
        notes = (f"{how}{split}",)
    seconds = time.monotonic() - run.started
    return Trace(sentence(run, stages, ending), ending, tuple(stages), seconds, ok, notes)
