"""Asks the process that runs the user's pipeline, and ends it after its time limit."""

import tempfile
import threading

from wdsflow.engines.peer import Peer, ending, likely_memory
from wdsflow.text.shell import escape

from .load_pipeline import PipelineError
from .probe_child import BUILDING, LastSeen, ProbeRun, RunPlace, RunRequest, stage_name
from .rewire import PipelineFacts

_IMPORT = 120.0  # seconds for the import of the user's module
_GRACE = 5.0  # beyond the limit of a run, which the process itself watches first


class ProbeProcess:
    """Runs a pipeline over tars that it is given, in a process of its own. A context manager.

    Args:
        spec: ``module:object`` or ``train.py:object``.
    """

    def __init__(self, spec: str) -> None:
        self.spec = spec
        self.fault: ProbeRun | None = None  # the first run that failed for what this machine lacks
        self.collation_drops = False  # in some run, samples were left out when batches were made
        self._peer: Peer | None = None
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
        """End the process with all that it started."""
        self._end()
        self._log.close()
        self._seen.close()
        self._cache.cleanup()

    def run(self, request: RunRequest) -> ProbeRun:
        """Return what came of a run; "hung" if it was killed at its limit. Raises PipelineError if it cannot run."""
        peer = self._peer if self._peer and not self._peer.gone() else self._start()
        answer = self._ask(peer, request, request.seconds + _GRACE)
        if answer.how == "wrong":
            raise PipelineError(answer.error)
        if answer.how == "hung":
            self._end()
        if answer.machine and self.fault is None:
            self.fault = answer
        self.collation_drops |= answer.facts is not None and answer.facts.collation_drops
        return answer

    def _start(self) -> Peer:
        self._end()
        self._log.seek(0)
        self._log.truncate()  # of what the one before said
        peer = self._peer = Peer(
            f"import os; os.environ['HF_DATASETS_CACHE'] = {self._cache.name!r}; "  # no probe in the cache of the user
            f"from wdsflow.validate.pipeline.probe_child import serve; serve({self.spec!r}, {self._last.fd})",
            inherit=(self._last.fd,),
            stderr=self._log,
        )
        ready = self._ask(peer, None, _IMPORT)
        if ready.how in ("hung", "raised"):
            limit = f"took longer than {_IMPORT:.0f} s" if ready.how == "hung" else f"ended: {ready.error}"
            raise PipelineError(f"the import of {self.spec} {limit}")
        if ready.how == "wrong":
            raise PipelineError(ready.error)
        return peer

    def _ask(self, peer: Peer, request: RunRequest | None, seconds: float) -> ProbeRun:
        """Return the answer; how far the run came, if the process died or was killed when its time was up."""
        late, facts = threading.Event(), None

        def end() -> None:
            late.set()
            peer.end()

        timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), end)
        timer.start()
        try:
            if request is not None:
                peer.send(request)
            while True:
                answer = peer.receive()
                assert isinstance(answer, ProbeRun)
                if answer.how != "begun":
                    return answer
                facts = answer.facts
        except (OSError, EOFError):
            return self._died(facts, late=late.is_set())
        finally:
            timer.cancel()

    def _died(self, facts: PipelineFacts | None, *, late: bool) -> ProbeRun:
        """Return how far the run came whose process has ended."""
        status = self._end(patience=1.0)
        out, stage, key, shard = self._last.place() if facts is not None else RunPlace()
        name = BUILDING if facts is None or stage < 0 else stage_name(stage + 1, facts)
        how = f"{ending(status, 'ended with exit status')}{likely_memory(status, 'one') or self._said()}"
        error = "" if late else f"the process {how}"
        return ProbeRun("hung" if late else "raised", out, name, error, "", key, shard, facts, died=True)

    def _end(self, patience: float = 0.0) -> int:
        """Kill the process with all that it started, ``patience`` seconds later; return its exit status."""
        peer, self._peer = self._peer, None
        if peer is None:
            return 0
        peer.ends_within(patience)  # one that died by itself has its own status
        return peer.close()

    def _said(self) -> str:
        """Return the last line that the process wrote to its standard error."""
        self._log.seek(0)
        lines = self._log.read().decode("utf-8", "replace").strip().splitlines()
        return f": {escape(lines[-1], 300)}" if lines else ""
