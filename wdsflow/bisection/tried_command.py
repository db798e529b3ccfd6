"""One run of a command on shards, and its result."""

import mmap
import os
import re
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from wdsflow.engines.peer import Peer, killed_by

_END = 64 << 10  # bytes of the output that are read, at its end
_PLACEHOLDER = re.compile(r"\{(shards|folder|samples|run)\}")
_CHANGES = re.compile(r"0x[0-9a-f]+|\d+|\S*/\S*")  # addresses, numbers and paths differ between runs

SHARDS, FOLDER = "{shards}", "{folder}"
_TRACEBACK = "Traceback (most recent call last):"


def filled(command: Sequence[str], shards: Path, samples: int, run: str) -> list[str]:
    """Return the words of a command with its placeholders replaced; ``shards``: a path, or a range in braces.

    >>> filled(["train", "--data={shards}", "{folder}", "{samples}"], Path("new/0.tar"), 7, "/tmp/new")
    ['train', '--data=new/0.tar', 'new', '7']
    """
    meant = {"shards": str(shards), "folder": str(shards.parent), "samples": str(samples), "run": run}
    return [_PLACEHOLDER.sub(lambda found: meant[found[1]], word) for word in command]


class CannotStart(Exception):
    """The program does not exist."""


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How a run ended."""

    how: Literal["passes", "fails", "hangs", "prints", "is unfinished"]
    status: int = 0  # of the process: negative for a signal
    error: str = ""  # the last exception in its output, or the text of ``match``
    seconds: float = field(default=0.0, compare=False)
    output: str = field(default="", compare=False)  # its end

    @property
    def failed(self) -> bool:
        """Whether it failed in any way."""
        return self.how in {"fails", "hangs", "prints"}

    def same_failure(self, other: "RunEnd") -> bool:
        """Return whether both failed in the same way, such as with the same status and the same exception."""
        alike = _CHANGES.sub("", self.error) == _CHANGES.sub("", other.error)
        return self.failed and self.how == other.how and self.status == other.status and alike

    def __str__(self) -> str:
        """Return the result in words."""
        if self.how == "prints":
            return f"prints {self.error!r}"
        if self.how != "fails":
            return self.how
        by = killed_by(self.status) or f"status {self.status}"
        return f"fails with {by}{f', {self.error}' if self.error else ''}"


@dataclass(frozen=True, slots=True)
class TriedCommand:
    """Runs a command on shards.

    In the words of ``command``, ``{shards}`` is replaced by the shards, ``{folder}`` by their folder, ``{samples}`` by
    their number of samples, and ``{run}`` by a new, empty folder for each run.
    """

    command: Sequence[str]
    hang_after: float | None = None  # seconds after which a run hangs; None: no limit
    match: str | None = None  # a run fails only if it prints this

    def run(self, shards: Path, samples: int, limit: float | None = None) -> RunEnd:
        """Run the command for at most ``limit`` seconds; after that, it is unfinished. Raises CannotStart."""
        until = self.hang_after if self.hang_after is not None else limit
        program = filled(self.command[:1], shards, samples, "")[0]
        if shutil.which(program) is None:
            raise CannotStart(f"there is no program {program}, or it may not be run")
        folder = tempfile.mkdtemp(prefix="wdsflow-bisect-")
        words = filled(self.command, shards, samples, folder)
        start = time.monotonic()
        try:
            with tempfile.TemporaryFile() as out:
                start_command = "from wdsflow.engines.keeper import run_command; run_command()"
                peer = Peer(start_command, words=words, stdout=out, stderr=out)
                status: int | None = None
                try:
                    if peer.ends_within(until):
                        status = peer.wait()
                finally:
                    peer.close()
                return self._outcome(status, time.monotonic() - start, out.fileno())
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _outcome(self, status: int | None, seconds: float, file: int) -> RunEnd:
        size = os.fstat(file).st_size
        output = os.pread(file, _END, max(0, size - _END)).decode("utf-8", "replace")
        if self.match is not None and size:
            with mmap.mmap(file, 0, access=mmap.ACCESS_READ) as data:
                if data.find(self.match.encode("utf-8", "surrogateescape")) >= 0:
                    return RunEnd("prints", 0, self.match, seconds, output)
        if status is None:
            hangs = self.hang_after is not None and self.match is None
            return RunEnd("hangs" if hangs else "is unfinished", 0, "", seconds, output)
        if not status or self.match is not None:
            return RunEnd("passes", 0, "", seconds, output)
        return RunEnd("fails", status, last_exception(output), seconds, output)


def last_exception(output: str) -> str:
    r"""Return the line after the last traceback in the output of a program; "" if there is none.

    >>> last_exception("[rank0]: Traceback (most recent call last):\n[rank0]:   a.py\n[rank0]: zlib.error: bad\nend")
    'zlib.error: bad'
    """
    before, mark, after = output.rpartition(_TRACEBACK)
    if not mark:
        return ""
    prefix = before.rpartition("\n")[2]
    lines = (line.removeprefix(prefix) for line in after.splitlines()[1:])
    return next((line.strip() for line in lines if line.strip() and line[0] not in " \t"), "")
