"""One run of a command, and what became of it."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

_END = 64 << 10  # bytes of the output that are looked at
_EXCEPTION = re.compile(
    r"^(?:\[rank\d+\]: ?)?((?:\w+\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Stop|Timeout)\w*)(: .*)?$"
)
_PLACEHOLDER = re.compile(r"\{(shards|samples|run)\}")
_CHANGES = re.compile(r"0x[0-9a-f]+|\d+|\S*/\S*")  # from run to run: addresses, numbers, paths

SHARDS = "{shards}"


def filled(command: Sequence[str], shards: str, samples: int, run: str) -> list[str]:
    """Return the words of a command with its placeholders filled in.

    >>> filled(["train", "--data={shards}", "{samples}"], "a.tar", 7, "/tmp/new")
    ['train', '--data=a.tar', '7']
    """
    meant = {"shards": shards, "samples": str(samples), "run": run}
    return [_PLACEHOLDER.sub(lambda found: meant[found[1]], word) for word in command]


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How a run ended."""

    how: Literal["passes", "fails", "hangs", "is unfinished"]
    status: int = 0  # of the process: negative for a signal
    error: str = ""  # the last exception in its output
    seconds: float = field(default=0.0, compare=False)
    output: str = field(default="", compare=False)  # its end

    def same_failure(self, other: "RunEnd") -> bool:
        """Return whether both failed in the same way: by hanging, or with the same status and the same exception."""
        alike = _CHANGES.sub("", self.error) == _CHANGES.sub("", other.error)
        return self.how == other.how and self.how in {"fails", "hangs"} and self.status == other.status and alike

    def __str__(self) -> str:
        """Return it in words."""
        if self.how != "fails":
            return self.how
        by = f"signal {signal.Signals(-self.status).name}" if self.status < 0 else f"status {self.status}"
        return f"fails with {by}{f', {self.error}' if self.error else ''}"


@dataclass(frozen=True, slots=True)
class TriedCommand:
    """Runs a command on shards.

    ``command``: words, in which ``{shards}`` stands for the shards, ``{samples}`` for their number of samples, and
    ``{run}`` for an empty folder, a new one for each run.
    """

    command: Sequence[str]
    hang_after: float | None = None  # seconds from which on a run hangs; None: runs have time
    match: str | None = None  # only what prints this fails

    def run(self, shards: str, samples: int, limit: float | None = None) -> RunEnd:
        """Run the command; after ``limit`` seconds it is killed and unfinished. Raises OSError if it cannot be started."""
        until = self.hang_after if self.hang_after is not None else limit
        folder = tempfile.mkdtemp(prefix="wdsflow-bisect-")
        words = filled(self.command, shards, samples, folder)
        start = time.monotonic()
        try:
            with tempfile.TemporaryFile() as out:
                process = subprocess.Popen(
                    words, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
                )
                try:
                    status: int | None = process.wait(until)
                except subprocess.TimeoutExpired:
                    status = None
                finally:
                    _kill(process)
                return self._outcome(status, time.monotonic() - start, _end_of(out.fileno()))
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _outcome(self, status: int | None, seconds: float, output: str) -> RunEnd:
        if self.match is not None and self.match not in output:
            return RunEnd("passes" if status is not None else "is unfinished", 0, "", seconds, output)
        if status is None:
            return RunEnd("hangs" if self.hang_after is not None else "is unfinished", 0, "", seconds, output)
        if self.match is not None:
            return RunEnd("fails", 0, self.match, seconds, output)
        found = [line for line in map(str.strip, output.splitlines()) if _EXCEPTION.match(line)]
        error = found[-1] if found and status else ""
        return RunEnd("fails" if status else "passes", status, error, seconds, output)


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill a run with all that it started, also where it ended itself."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _end_of(file: int) -> str:
    size = os.fstat(file).st_size
    return os.pread(file, _END, max(0, size - _END)).decode("utf-8", "replace")
