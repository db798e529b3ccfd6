"""The process in which the user's pipeline runs: it builds the pipeline again for each run, and reports the output.

``ProbeProcess`` starts it, sends requests, and kills it after its time limit; ``serve`` is its main function.
"""

import contextlib
import math
import os
import resource
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import wait
from types import SimpleNamespace
from typing import IO, Literal, NamedTuple

from wdsflow.engines.peer import Note, Peer, ending, likely_memory, receive, send, take_line, when_gone
from wdsflow.memory.usage import host_memory, private_data
from wdsflow.text.shell import escape

from ..tracing.meter import StageTrace, TraceRun, error_text, line_of, machine_fault
from ..tracing.pipeline_steps import of_generators, random_state, take_apart
from ..tracing.trace import Trace, observe
from .load_pipeline import PipelineError, build, failure_text, find
from .rewire import PipelineFacts, Rewiring, check_made

RANKS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "WORKER", "NUM_WORKERS", "SLURM_PROCID", "SLURM_NTASKS")
_LEAST_MEMORY = 1 << 30  # bytes
_KEY_BYTES = 1000  # of a key, and of a shard, in a note
IMPORT = 120.0  # seconds for the import of the user's module
_GRACE = 5.0  # beyond the limit of a run, which the process itself enforces first
BUILDING = "building the pipeline"  # in place of a stage

How = Literal["begun", "ended", "raised", "hung", "slow", "endless", "wrong"]


@dataclass(frozen=True, slots=True)
class RunRequest:
    """One run over some shards."""

    urls: tuple[str, ...]
    singly: bool = True  # batches hold one sample
    seconds: float = 20.0
    first_seconds: float = 60.0  # at least, for building it and for the first run of a process: either may load a model
    most: int = 300  # elements; a pipeline that yields more repeats its shards
    seed: int = 0
    change: tuple[int, str] | None = None  # code of stages to insert after that number; "": give it a handler
    patience: float = math.inf  # seconds without any item that count as a hang


class StageLoss(NamedTuple):
    """Samples that one stage consumed and did not yield."""

    stage: str
    error: str  # the type of the exception that its handler swallowed; "" for none
    samples: int


@dataclass(frozen=True, slots=True)
class ProbeRun:
    """The result of one run."""

    how: How
    out: int = 0  # elements
    stage: str = ""  # where samples were lost, or what raised or hung: "stage 4 map(caption)"; "" if unknown
    error: str = ""  # the type and first line of the exception, or of the first that a handler swallowed
    line: str = ""  # "train.py:31"
    key: str = ""  # of the sample that a stage was at
    shard: str = ""
    facts: PipelineFacts | None = None
    losses: tuple[StageLoss, ...] = ()  # of a run that ended
    taken: int = 0  # samples that were read
    rows: int = 0  # samples in the output, if it is certainly batches
    stopped: str = ""  # the stage that ended before its input did, such as "stage 4 slice(100)"
    machine: str = ""  # a missing requirement of this machine, by an error: then the run proves nothing about samples
    died: bool = False  # together with its process

    @property
    def picks_shards(self) -> bool:
        """Whether the function that builds the pipeline skipped shards."""
        return self.facts is not None and self.facts.picks_shards

    @property
    def comes_out(self) -> bool:
        """Whether samples came out."""
        return self.out > 0 and self.how in ("ended", "endless")

    @property
    def cause(self) -> str:
        """The error, and missing requirements of this machine."""
        return f"{self.error}; {self.machine}: validate where it will train" if self.machine else self.error


class LastSeen(Note):
    """The progress of a run, which outlives its process: elements, running stage and sample."""

    def __init__(self, fd: int) -> None:
        super().__init__(f"<{_KEY_BYTES}s{_KEY_BYTES}sHHqq", fd)

    def clear(self) -> None:
        """Note that the pipeline is being built."""
        self.write(b"", b"", 0, 0, 0, -1)

    def note(self, run: TraceRun, stage: int) -> None:
        """Note that the code of a stage starts to run."""
        key, shard = (text.encode("utf-8", "replace")[:_KEY_BYTES] for text in run.place(stage))
        self.write(key, shard, len(key), len(shard), run.seen[-2].out, stage)

    def place(self) -> tuple[int, int, str, str]:
        """Return the last note: elements that came out, stage from 0 (-1 during building), key and shard."""
        key, shard, key_size, shard_size, out, stage = self.read()
        return out, stage, key[:key_size].decode("utf-8", "replace"), shard[:shard_size].decode("utf-8", "replace")


class ProbeProcess:
    """Runs a pipeline over given tars, in its own process. A context manager.

    Args:
        spec: ``module:object`` or ``train.py:object``.
    """

    def __init__(self, spec: str) -> None:
        self.spec = spec
        self.fault: ProbeRun | None = None  # the first run that failed for a missing requirement of this machine
        self.collation_drops = False  # in some run, collation dropped samples
        self._peer: Peer | None = None
        self._has_run = False  # this process
        self._is_built = self._hangs = False  # some run was built; some run hung at the longest limit
        self._seen = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close
        self._last = LastSeen(self._seen.fileno())
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close
        self._cache = tempfile.TemporaryDirectory(prefix="wdsflow-cache-", ignore_cleanup_errors=True)

    def __enter__(self) -> "ProbeProcess":  # noqa: PYI034 - typing has Self from 3.11 on
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill the process and its children."""
        self._end()
        self._log.close()
        self._seen.close()
        self._cache.cleanup()

    def run(self, request: RunRequest) -> ProbeRun:
        """Return the result of a run; "hung" if it was killed at its limit. Raises PipelineError if it cannot run."""
        peer = self._peer if self._peer and not self._peer.gone() else self._start()
        longest = max(request.seconds, request.first_seconds)
        limit = request.seconds if self._has_run or self._hangs else longest
        answer = self._ask(peer, replace(request, seconds=limit), longest)
        self._is_built |= answer.facts is not None
        if answer.how == "wrong":
            raise PipelineError(answer.error)
        if answer.how == "hung":
            self._end()
            if not self._is_built:
                raise PipelineError(f"{self.spec}: {BUILDING} took longer than {longest:.0f} s")
            if limit < longest and not self._hangs:
                return self.run(request)  # it may only be slow: as the first run of the next process it has more time
            self._hangs = True
        self._has_run = True
        if answer.machine and self.fault is None:
            self.fault = answer
        self.collation_drops |= answer.facts is not None and answer.facts.collation_drops
        return answer

    def _start(self) -> Peer:
        self._end()
        self._has_run = False
        self._log.seek(0)
        self._log.truncate()  # the output of the previous process
        peer = self._peer = Peer(
            f"import os; os.environ['HF_DATASETS_CACHE'] = {self._cache.name!r}; "  # not the user's cache
            f"from {__name__} import serve; serve({self.spec!r}, {self._last.fd})",
            inherit=(self._last.fd,),
            stderr=self._log,
        )
        ready = self._ask(peer, None, IMPORT)
        if ready.how in ("hung", "raised"):
            limit = f"took longer than {IMPORT:.0f} s" if ready.how == "hung" else f"ended: {ready.error}"
            raise PipelineError(f"the import of {self.spec} {limit}")
        if ready.how == "wrong":
            raise PipelineError(ready.error)
        return peer

    def _ask(self, peer: Peer, request: RunRequest | None, seconds: float) -> ProbeRun:
        """Return the answer, or the progress of the run if the process died or was killed at its limit.

        ``seconds``: until the import has ended or the pipeline is built.
        """
        facts = None
        try:
            if request is not None:
                peer.send(request)
            while wait([peer.line], seconds):
                answer = peer.receive()
                assert isinstance(answer, ProbeRun)
                if request is None or answer.how != "begun":
                    return answer
                facts, seconds = answer.facts, request.seconds + _GRACE
        except (OSError, EOFError):
            return self._died(facts, late=False)
        return self._died(facts, late=True)

    def _died(self, facts: PipelineFacts | None, *, late: bool) -> ProbeRun:
        """Return the progress of a run whose process has ended."""
        status = self._end(patience=0.0 if late else 1.0)
        out, stage, key, shard = self._last.place() if facts is not None else (0, -1, "", "")
        name = BUILDING if facts is None or stage < 0 else _stage_name(stage + 1, facts)
        error = "" if late else how_it_ended(status, self._log)
        return ProbeRun("hung" if late else "raised", out, name, error, "", key, shard, facts, died=True)

    def _end(self, patience: float = 0.0) -> int:
        """Kill the process and its children after ``patience`` seconds; return its exit status."""
        peer, self._peer = self._peer, None
        if peer is None:
            return 0
        peer.ends_within(patience)  # one that died earlier has its own status
        return peer.close()


def how_it_ended(status: int, log: IO[bytes]) -> str:
    """Return how a process ended, with the last line of its standard error."""
    log.seek(0)
    lines = log.read().decode("utf-8", "replace").strip().splitlines()
    said = likely_memory(status, "one") or (f": {escape(lines[-1], 300)}" if lines else "")
    return f"the process {ending(status, 'ended with exit status')}{said}"


def serve(spec: str, fd: int) -> None:
    """Import the pipeline, then answer each ``RunRequest`` until the parent closes. ``fd``: of ``LastSeen``."""
    line = take_line()
    last = LastSeen(fd)
    when_gone(line, lambda: os.killpg(0, signal.SIGKILL))
    bound_memory()
    for name in RANKS:
        os.environ.pop(name, None)  # a probe is the only rank
    try:
        found = find(spec)
        _start_ray()
    except PipelineError as error:
        send(line, ProbeRun("wrong", error=str(error)))
        return
    send(line, ProbeRun("ended"))
    while True:
        try:
            request = receive(line)
        except EOFError:
            return
        assert isinstance(request, RunRequest)
        last.clear()
        answer = _run(found, request, last, lambda facts: send(line, ProbeRun("begun", facts=facts)))
        send(line, answer)
        if answer.how == "hung":
            os.killpg(0, signal.SIGKILL)  # the thread of this run would disturb the next


def _run(found: object, request: RunRequest, last: LastSeen, begun: Callable[[PipelineFacts], None]) -> ProbeRun:
    for seed in of_generators("seed"):
        seed(request.seed)
    try:
        built, made = build(found, request.urls)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's code may raise anything
        fault = machine_fault(error)
        return ProbeRun("raised", 0, BUILDING, failure_text(error, "called"), line_of(error), machine=fault)
    if handlers := sys.modules.get("webdataset.handlers"):  # they sleep half a second after each warning
        vars(handlers)["time"] = SimpleNamespace(sleep=lambda _: None)
    rewiring = Rewiring(request.urls, made_for_them=made, singly=request.singly, change=request.change)
    try:
        check_made(found, built)
        chain = take_apart(rewiring.rewire(built))
    except (PipelineError, TypeError) as error:
        return ProbeRun("wrong", error=str(error))
    chain.urls = frozenset()  # for a source that draws shards, the result is known from the output
    run = TraceRun(chain, request.most, request.seconds)
    run.watch = last.note
    begun(rewiring.facts)
    before = random_state()
    trace = observe(run, request.patience)
    rewiring.facts.draws = random_state() != before
    return _answer(trace, run, rewiring.facts)


def _answer(trace: Trace, run: TraceRun, facts: PipelineFacts) -> ProbeRun:
    names, final = [_stage_name(each.number, facts, each.title) for each in trace.stages], trace.stages[-1]
    rows, taken = final.rows if final.kind == "batch" else 0, run.seen[run.first].out
    answer = ProbeRun("ended", trace.delivered, facts=facts, taken=taken, rows=rows, machine=run.machine)
    if trace.ending == "raised" and run.raised is not None:
        index, error = run.raised[0], _cause_of(run.raised[1])
        text, line, fault, (key, shard) = error_text(error), line_of(error), machine_fault(error), run.place(index)
        found = replace(answer, how="raised", stage=names[index], error=text, line=line, key=key, shard=shard)
        return replace(found, machine=run.machine or fault)
    if trace.ending in ("blocked", "asks-ended-source"):
        index = run.endless_at if run.endless_at >= 0 else (run.blocked or (-1, 0.0))[0]
        stage, (key, shard) = names[index] if 0 <= index < len(names) else "", run.place(max(index, 0))
        return replace(answer, how="hung", stage=stage, key=key, shard=shard, machine="")
    slow = trace.ending == "time" or (trace.ending != "pass" and trace.seconds > 0.75 * run.seconds)
    how: How = "endless" if trace.ending == "samples" else "slow" if slow else "ended"
    early = run.stopped_early()
    answer = replace(answer, how=how, stopped=names[early] if early > 0 and how == "ended" else "")
    lossy = _losing(trace.stages)
    if lossy is None:
        return answer
    text, key, shard = lossy.first_error or lossy.first_log, lossy.error_key, lossy.error_shard
    found = replace(answer, stage=names[lossy.number - 1], error=text, line=lossy.error_line, key=key, shard=shard)
    return replace(found, losses=tuple(_losses(trace.stages, names)))


def _losses(stages: Sequence[StageTrace], names: Sequence[str]) -> Iterator[StageLoss]:
    """Yield how many samples each stage lost, with and without an error."""
    for stage, name in zip(stages[1:], names[1:], strict=True):
        if stage.taken_kind != "sample" or stage.kind not in ("", "sample"):
            continue
        for error, count in stage.error_types.items():
            yield StageLoss(name, error, count)
        if stage.lost > stage.errors:
            yield StageLoss(name, "", stage.lost - stage.errors)


def _losing(stages: Sequence[StageTrace]) -> StageTrace | None:
    """Return the first stage that lost samples, or yielded nothing; None if all came through."""
    lossy = (stage for stage in stages[1:] if stage.lost or (stage.taken and not stage.out) or stage.errors)
    return next(lossy, None if stages[-1].out else stages[-1])


def _stage_name(number: int, facts: PipelineFacts, title: str = "") -> str:
    """Return a stage as the user wrote it: "stage 4 map(caption)"; ``title``: of one that is not in the facts."""
    return escape(f"stage {number} {facts.stages[number - 1] if number <= len(facts.stages) else title}".strip())


def bound_memory() -> None:
    """Limit memory to half of the free memory: a pipeline that needs more gets a MemoryError."""
    most = private_data() + max(_LEAST_MEMORY, host_memory().free // 2)
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_DATA, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def _start_ray() -> None:
    """Start a local Ray if the pipeline imports Ray: the start takes longer than the limit of a probe."""
    ray = sys.modules.get("ray")
    if ray is not None and not ray.is_initialized():
        ray.init(address="local", include_dashboard=False, log_to_driver=False, logging_level="ERROR")


def _cause_of(error: BaseException) -> BaseException:
    """Return the error of the user's code that Ray has wrapped, or the error itself."""
    for _ in range(8):
        inner = type(error).__module__.startswith("ray.") and (getattr(error, "cause", None) or error.__cause__)
        if not isinstance(inner, BaseException):
            break
        error = inner
    return error
