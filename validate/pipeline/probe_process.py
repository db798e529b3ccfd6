"""Asks the process that runs the user's pipeline, and ends it where it outlives its limit."""

import contextlib
import signal
import subprocess
import tempfile
import threading

from wdsflow.engines.child_process import receive, send
from wdsflow.engines.family import end_family, start_family
from wdsflow.text.escape import escape

from .load_pipeline import PipelineError
from .probe_child import ProbeRun, RunRequest

_IMPORT = 120.0  # seconds for the import of the user's module
_GRACE = 5.0  # beyond the limit of a run, which the process itself watches first


class ProbeProcess:
    """Runs a pipeline over tars that it is given, in a process of its own. A context manager.

    Args:
        spec: ``module:object`` or ``train.py:object``.
    """

    def __init__(self, spec: str) -> None:
        self.spec = spec
        self._process: subprocess.Popen[bytes] | None = None
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
        self._cache.cleanup()

    def run(self, request: RunRequest) -> ProbeRun:
        """Return what came of a run; "hung" if it was killed at its limit. Raises PipelineError if it cannot run."""
        process = self._process if self._process and self._process.poll() is None else self._start()
        answer = self._ask(process, request, request.seconds + _GRACE)
        if answer is None:
            status = self._end(patience=1.0)
            killed = status == -signal.SIGKILL
            error = "" if killed else f"the process died with exit status {status}{self._said()}"
            return ProbeRun("hung" if killed else "raised", error=error)
        if answer.how == "wrong":
            raise PipelineError(answer.error)
        if answer.how == "hung":
            self._end()
        return answer

    def _start(self) -> "subprocess.Popen[bytes]":
        self._end()
        process = self._process = start_family(
            f"import os; os.environ['HF_DATASETS_CACHE'] = {self._cache.name!r}; "  # no probe in the cache of the user
            f"from wdsflow.validate.pipeline.probe_child import serve; serve({self.spec!r})",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        ready = self._ask(process, None, _IMPORT)
        if ready is None:
            status = self._end(patience=1.0)
            limit = f"took longer than {_IMPORT:.0f} s" if status == -signal.SIGKILL else f"ended with status {status}"
            raise PipelineError(f"the import of {self.spec} {limit}{self._said()}")
        if ready.how == "wrong":
            raise PipelineError(ready.error)
        return process

    def _ask(self, process: "subprocess.Popen[bytes]", request: RunRequest | None, seconds: float) -> ProbeRun | None:
        """Return the answer; None if the process died, or was killed when its time was up."""
        assert process.stdin is not None
        assert process.stdout is not None
        timer = threading.Timer(seconds, end_family, [process])
        timer.start()
        try:
            if request is not None:
                send(process.stdin, request)
            answer = receive(process.stdout)
            assert isinstance(answer, ProbeRun)
            return answer
        except (OSError, EOFError):
            return None
        finally:
            timer.cancel()

    def _end(self, patience: float = 0.0) -> int:
        """Kill the process with all that it started, ``patience`` seconds later; return its exit status."""
        process, self._process = self._process, None
        if process is None:
            return 0
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience)  # one that died by itself has a status of its own
        end_family(process)
        status = process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        return status

    def _said(self) -> str:
        """Return the last line that the process wrote to its standard error."""
        self._log.seek(0)
        lines = self._log.read().decode("utf-8", "replace").strip().splitlines()
        return f": {escape(lines[-1], 300)}" if lines else ""
