"""Run a pipeline for a moment and report which stage loses samples."""

import contextvars
import ctypes
import math
import threading
import time
from contextlib import suppress
from functools import partial
from typing import Any

from .kept_state import listening, same_random_state
from .meter import Meter, Stopped, TraceRun
from .pipeline_steps import Chain, take_apart
from .trace_report import Ending, StageTrace, Trace, sentence

__all__ = ["StageTrace", "Trace", "trace"]

_GRACE = 0.5  # seconds for a run to notice that its time is up


def trace(pipeline: object, samples: int = 1000, seconds: float = 20.0) -> Trace:
    """Run a pipeline in this process for at most one pass and count what each stage takes, gives and swallows.

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
    chain = take_apart(pipeline)
    run = TraceRun(len(chain.steps), samples, seconds, chain.urls)
    with same_random_state():
        ending = observe(chain, run, seconds)
    return summary(chain, run, ending)


def observe(chain: Chain, run: TraceRun, seconds: float, patience: float = math.inf) -> Ending:
    """Run a chain in a thread for at most ``seconds``; its meters write into ``run``. Return how it ended.

    It also ends where no item passes any stage for ``patience`` seconds.
    """
    context = contextvars.copy_context()
    ending: list[Ending] = []

    def drive() -> None:
        meters: list[Meter] = []
        with suppress(Stopped):
            ending.append(context.run(_drive, chain, run, meters))
            context.run(_close, meters)

    thread = threading.Thread(target=drive, name="wdsflow-trace", daemon=True)
    with listening(run, thread):
        try:
            thread.start()
            thread.join(min(patience, seconds + _GRACE))
            while patience < seconds and thread.is_alive() and (idle := time.monotonic() - run.since) < patience:
                thread.join(patience - idle)
            if thread.is_alive() and not ending:  # slow closing does not affect the verdict
                run.blocked = (run.owner, time.monotonic() - run.since)
                _interrupt(thread)
        finally:
            run.stopping = True  # also after Ctrl-C: the thread ends at its next item
    if run.blocked or not ending:
        return "asks-ended-source" if run.endless_at >= 0 else "blocked"
    return ending[0]


def _drive(chain: Chain, run: TraceRun, meters: list[Meter]) -> Ending:
    """Build the chain with a meter after each stage and read from it."""
    try:
        for index, step in enumerate(chain.steps):
            meter = Meter(run, index, step.batch)
            before = run.switch(index)
            try:
                call = step.make(partial(run.swallowed, index))
                meter.attach(call(*meters[-1:]))
            except Exception as error:
                run.raised = run.raised or (index, error)
                raise
            finally:
                run.switch(before)
            meters.append(meter)
        for count, _ in enumerate(meters[-1], 1):
            if count >= run.samples:
                run.reason = run.reason or "samples"
                break
    except Stopped:
        pass
    except BaseException as error:  # noqa: BLE001 - it is reported as the verdict
        run.raised = run.raised if run.raised and run.raised[1] is error else (max(0, len(meters) - 1), error)
        return "raised"
    if run.raised:  # a later stage swallowed what this one raised
        run.swallowed(*run.raised)
    return run.reason or "pass"


def _close(meters: list[Meter]) -> None:
    for meter in reversed(meters):
        try:
            meter.close()
        except (Exception, Stopped):  # noqa: BLE001 - a stage that fails when it is closed has been judged already
            continue


def _interrupt(thread: threading.Thread) -> None:
    """End a stage that computes without output; a stage that waits for input stays."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(Stopped))
    thread.join(_GRACE)


def summary(chain: Chain, run: TraceRun, ending: Ending) -> Trace:
    """Return what a run found out."""
    stages: list[StageTrace] = []
    blocked, waited = run.blocked or (-1, 0.0)
    for index, (step, seen) in enumerate(zip(chain.steps, run.seen, strict=False)):
        before = run.seen[index - 1] if index else None
        fields: Any = before.fields if before else seen.fields
        stages.append(
            StageTrace(
                number=index + 1,
                title=step.title,
                taken=before.out if before else 0,
                out=seen.out,
                kind=seen.kind,
                taken_kind=before.kind if before else "",
                rows=seen.rows,
                batch=step.batch,
                seconds=max(seen.seconds, waited if index == blocked else 0.0),
                errors=seen.errors,
                error_types=dict(seen.error_types),
                first_error=seen.first_error,
                error_line=seen.error_line,
                error_key=seen.error_key,
                error_shard=seen.error_shard,
                ended_stream=seen.ended_stream,
                logged=seen.logged,
                first_log=seen.first_log,
                fields=dict(fields.most_common()),
            )
        )
    table = tuple(stages)
    ok = stages[-1].out > 0 and ending not in ("raised", "blocked", "asks-ended-source")
    verdict = sentence(chain, run, table, ending)
    return Trace(verdict, ending, table, time.monotonic() - run.started, ok, _notes(chain, ending))


def _notes(chain: Chain, ending: Ending) -> tuple[str, ...]:
    how = {
        "pass": "one full pass over the source",
        "samples": "ended by the trace after enough samples",
        "time": "ended by the time limit",
    }.get(ending, "")
    workers = f"; the loader itself would split the shards over {chain.workers} workers" if chain.workers > 1 else ""
    return (f"{how}{workers}",) if how else ()
