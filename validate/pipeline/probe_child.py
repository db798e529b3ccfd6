"""The process in which the user's pipeline runs: it builds the pipeline again for each run, and reports what came out."""

import contextlib
import math
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple

from wdsflow.engines.peer import Note, receive, send, take_line, when_gone
from wdsflow.memory.usage import host_memory, private_data
from wdsflow.text.shell import escape

from ..tracing.meter import TraceRun, machine_fault
from ..tracing.pipeline_steps import state_of_chance, take_apart
from ..tracing.stage_words import error_text, line_of
from ..tracing.trace import StageTrace, Trace, observe, summary
from .load_pipeline import PipelineError, build, failure_text, find
from .other_datasets import cause_of, start_ray
from .rewire import PipelineFacts, Rewiring, check_made

_RANKS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "WORKER", "NUM_WORKERS", "SLURM_PROCID", "SLURM_NTASKS")

_LEAST_MEMORY = 1 << 30  # bytes
_KEY_BYTES = 1000  # of a key, and of a shard, in a note
BUILDING = "building the pipeline"  # in place of a stage

How = Literal["begun", "ended", "raised", "hung", "slow", "endless", "wrong"]


@dataclass(frozen=True, slots=True)
class RunRequest:
    """One run over some shards."""

    urls: tuple[str, ...]
    singly: bool = True  # batches hold one sample
    seconds: float = 20.0
    most: int = 300  # elements; a pipeline that gives more repeats its shards
    seed: int = 0
    change: tuple[int, str] | None = None  # code of stages to put after one of that number; "": give it a handler
    patience: float = math.inf  # seconds without any item after which it hangs


@dataclass(frozen=True, slots=True)
class ProbeRun:
    """What came of one run."""

    how: How
    out: int = 0  # elements
    stage: str = ""  # where samples were lost, or what raised or hung: "stage 4 map(caption)"; "" if unknown
    error: str = ""  # the type and first line of the exception, or of the first that a handler swallowed
    line: str = ""  # "train.py:31"
    key: str = ""  # of the sample that a stage was at
    shard: str = ""
    facts: PipelineFacts | None = None
    losses: tuple["StageLoss", ...] = ()  # of a run that ended
    taken: int = 0  # samples that were read
    rows: int = 0  # samples in what came out, where that is batches for certain
    stopped: str = ""  # the stage that ended before its input did, such as "stage 4 slice(100)"
    machine: str = ""  # what this machine lacks, if an error said so: then the run tells nothing of its samples
    died: bool = False  # with its process

    @property
    def picks_shards(self) -> bool:
        """Whether the function that makes the pipeline left shards out."""
        return self.facts is not None and self.facts.picks_shards

    @property
    def cause(self) -> str:
        """The error, and what this machine lacks."""
        return f"{self.error}; {self.machine}: validate where it will train" if self.machine else self.error


class StageLoss(NamedTuple):
    """Samples that one stage got and did not give."""

    stage: str
    error: str  # the type of the exception that its handler swallowed; "" for none
    samples: int


class RunPlace(NamedTuple):
    """How far a run came."""

    out: int = 0  # elements
    stage: int = -1  # whose code ran, from 0; -1 while the pipeline was built
    key: str = ""  # of the sample that the stage was at
    shard: str = ""


class LastSeen(Note):
    """The place of a run, which outlives its process."""

    def __init__(self, fd: int) -> None:
        super().__init__(f"<{_KEY_BYTES}s{_KEY_BYTES}sHHqq", fd)

    def clear(self) -> None:
        """Note that the pipeline is being built."""
        self.write(b"", b"", 0, 0, 0, -1)

    def note(self, run: TraceRun, stage: int) -> None:
        """Note that the code of a stage begins to run."""
        key, shard = (text.encode("utf-8", "replace")[:_KEY_BYTES] for text in run.place(stage))
        self.write(key, shard, len(key), len(shard), run.seen[-2].out, stage)

    def place(self) -> RunPlace:
        """Return what was noted last."""
        key, shard, key_size, shard_size, out, stage = self.read()
        texts = (key[:key_size], shard[:shard_size])
        return RunPlace(out, stage, *(text.decode("utf-8", "replace") for text in texts))


def serve(spec: str, fd: int) -> None:
    """Import the pipeline, then answer one ``RunRequest`` after another, until nobody asks. ``fd``: of ``LastSeen``."""
    line = take_line()
    last = LastSeen(fd)
    when_gone(line, lambda: os.killpg(0, signal.SIGKILL))
    _bound_memory()
    for name in _RANKS:
        os.environ.pop(name, None)  # a probe is the only rank
    try:
        found = find(spec)
        start_ray()
    except PipelineError as error:
        send(line, ProbeRun("wrong", error=str(error)))
        return
    send(line, ProbeRun("ended"))
    while True:
        try:
            request = receive(line)
        except EOFError:
            return
        last.clear()
        answer = _run(found, request, last, lambda facts: send(line, ProbeRun("begun", facts=facts)))
        send(line, answer)
        if answer.how == "hung":
            os.killpg(0, signal.SIGKILL)  # the thread of that run would disturb the next


def _run(found: Any, request: RunRequest, last: LastSeen, begun: Callable[[PipelineFacts], None]) -> ProbeRun:
    _seed(request.seed)
    try:
        built, made = build(found, request.urls)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - of other people's making
        fault = machine_fault(error)
        return ProbeRun("raised", 0, BUILDING, failure_text(error, "called"), line_of(error), machine=fault)
    _without_pauses()
    rewiring = Rewiring(request.urls, made_for_them=made, singly=request.singly, change=request.change)
    try:
        check_made(found, built)
        chain = take_apart(rewiring.rewire(built))
    except (PipelineError, TypeError) as error:
        return ProbeRun("wrong", error=str(error))
    run = TraceRun(len(chain.steps), request.most, request.seconds, frozenset())
    run.watch = last.note
    begun(rewiring.facts)
    started = time.monotonic()
    before = state_of_chance()
    ending = observe(chain, run, request.seconds, request.patience)
    rewiring.facts.draws = state_of_chance() != before
    trace = summary(chain, run, ending)
    answer = _answer(trace, run, rewiring.facts, slow=time.monotonic() - started > 0.75 * request.seconds)
    early = run.stopped_early() if answer.how == "ended" else -1
    stopped = _name(trace.stages[early], rewiring.facts) if early > 0 else ""
    final = run.seen[len(trace.stages) - 1]
    rows = final.rows if final.kind == "batch" else 0
    return replace(answer, taken=run.seen[run.first].out, stopped=stopped, rows=rows)


def _answer(trace: Trace, run: TraceRun, facts: PipelineFacts, *, slow: bool) -> ProbeRun:
    out = trace.delivered
    if trace.ending == "raised" and run.raised is not None:
        index, error = run.raised
        error = cause_of(error)
        key, shard = run.place(index)
        stage, fault = _name(trace.stages[index], facts), run.machine or machine_fault(error)
        return ProbeRun("raised", out, stage, error_text(error), line_of(error), key, shard, facts, machine=fault)
    if trace.ending in ("blocked", "asks-ended-source"):
        index = run.endless_at if run.endless_at >= 0 else (run.blocked or (-1, 0.0))[0]
        stage = _name(trace.stages[index], facts) if 0 <= index < len(trace.stages) else ""
        key, shard = run.place(max(index, 0))
        return ProbeRun("hung", out, stage, "", "", key, shard, facts)
    lossy = _losing(trace.stages)
    how: How = "slow" if trace.ending == "time" or (slow and trace.ending != "pass") else "ended"
    if trace.ending == "samples":
        how = "endless"
    if lossy is None:
        return ProbeRun(how, out, facts=facts, machine=run.machine)
    swallowed = lossy.first_error or (lossy.first_log if lossy.logged else "")
    losses = tuple(_losses(trace.stages, facts))
    place = lossy.error_line, lossy.error_key, lossy.error_shard
    return ProbeRun(how, out, _name(lossy, facts), swallowed, *place, facts, losses, machine=run.machine)


def _losses(stages: Sequence[StageTrace], facts: PipelineFacts) -> Iterator[StageLoss]:
    """Yield how many samples each stage lost, with and without an error."""
    for stage in stages[1:]:
        if stage.taken_kind != "sample" or stage.kind not in ("", "sample"):
            continue
        for error, count in stage.error_types.items():
            yield StageLoss(_name(stage, facts), error, count)
        if stage.lost > stage.errors:
            yield StageLoss(_name(stage, facts), "", stage.lost - stage.errors)


def _losing(stages: Sequence[StageTrace]) -> StageTrace | None:
    """Return the first stage that gave fewer samples than it got, or none of what it got; None if all came through."""
    for stage in stages[1:]:
        if stage.lost or (stage.taken and not stage.out) or stage.errors:
            return stage
    return None if stages[-1].out else stages[-1]


def _name(stage: StageTrace, facts: PipelineFacts) -> str:
    """Return a stage as the user wrote it, with its own size of batches."""
    return stage_name(stage.number, facts, stage.title)


def stage_name(number: int, facts: PipelineFacts, title: str = "") -> str:
    """Return "stage 4 map(caption)"; ``title``: of a stage that the facts do not have."""
    return escape(f"stage {number} {facts.stages[number - 1] if number <= len(facts.stages) else title}".strip())


def _bound_memory() -> None:
    """Take at most half of the memory that is free: a pipeline that never has enough ends with MemoryError."""
    most = private_data() + max(_LEAST_MEMORY, host_memory().free // 2)
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_DATA, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def _without_pauses() -> None:
    """Let webdataset's handlers not wait half a second after each warning: a run over samples that fail would take minutes."""
    handlers: Any = sys.modules.get("webdataset.handlers")
    if handlers is not None:
        handlers.time = SimpleNamespace(sleep=lambda _: None)


def _seed(seed: int) -> None:
    random.seed(seed)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(seed)
    if torch := sys.modules.get("torch"):
        torch.manual_seed(seed)
