"""The file with the lines of a run: a line is appended when its output is finished."""

import errno
import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from wdsflow.shards.atomic import os_errors_named

from .file_identity import why_changed
from .line import Line, OneFile
from .unfinished import INSIDE

L = TypeVar("L", bound=Line)

# Seconds for which lines wait for one sync: each may take as long as the work on a small shard.
_SYNC_INTERVAL = 0.1


def lines_paths(inside: Path, stem: str) -> list[Path]:
    """Return the files with lines of a record, oldest first.

    These are the file of earlier runs, and those of slices.
    """
    return [inside / f"{stem}.jsonl", *sorted(inside.glob(f"{stem}-*-of-*.jsonl"))]


class LinesFile:
    """The file of lines that a running command appends to.

    The partial line of a killed run is removed. Raises OSError, which names the path.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._synced = 0.0
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        self._size = path.read_bytes().rfind(b"\n") + 1
        os.ftruncate(self._file, self._size)

    def add(self, line: bytes) -> None:
        """Append a line, or nothing. Raises OSError."""
        with os_errors_named(self._path):
            try:
                if os.write(self._file, line) != len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                if time.monotonic() - self._synced > _SYNC_INTERVAL:
                    os.fsync(self._file)
                    self._synced = time.monotonic()
            except OSError:
                os.ftruncate(self._file, self._size)
                raise
        self._size += len(line)

    def close(self) -> None:
        """Sync the last lines."""
        # The next run writes again what was lost.
        with suppress(OSError):
            os.fsync(self._file)
        os.close(self._file)


def read_lines(
    paths: Iterable[Path], kind: type[L], is_current: Callable[[L], bool] = lambda line: True
) -> dict[str, L]:
    """Return the finished outputs by name.

    Of several lines for one output, the last counts, but a line of an earlier result never replaces
    a current one.
    """
    lines: dict[str, L] = {}
    for path in paths:
        with suppress(FileNotFoundError), open(path, "rb") as file:
            for text in file:
                try:
                    line = kind.from_line(text)
                except ValueError:
                    # The partial line of a killed run, or one of
                    # another version: the output is written again.
                    continue
                earlier = lines.get(line.name)
                if earlier is None or is_current(line) or not is_current(earlier):
                    lines[line.name] = line
    return lines


def is_as_written(
    folder: str | os.PathLike[str], run: str, kind: type[OneFile], names: Iterable[str]
) -> bool:
    """Return whether runs of a command wrote all of these files, and none has changed since."""
    try:
        lines = read_lines([Path(folder, INSIDE, f"{run}.jsonl")], kind)
        for name in names:
            if name not in lines or why_changed(Path(folder, name), lines[name].identity):
                return False
    # Also SourceError.
    except OSError:
        return False
    return True
