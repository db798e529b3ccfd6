"""The inputs of the second pass, kept open by each thread as long as there is room."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wdsflow.pieces.joined_source import JoinedSource
from wdsflow.shards.shard_identity import input_identity
from wdsflow.shards.source.base import LocalSource, Source, SourceChangedError, local_path, open_file
from wdsflow.shards.source.unpack import seekable

from .input_report import InputReport

_COPIES = 2  # shards unpacked onto the disk that a thread keeps
_FILES, _OTHERS = 1024, 256  # files that all threads keep open, at most; what the process needs besides


class OpenInputs:
    """The inputs as one source; a thread gets one of its own, because opening an input may close another."""

    def __init__(self, inputs: list[InputReport], folder: Path, jobs: int) -> None:
        self._inputs, self._folder = inputs, folder
        self._files = max(8, (min(_FILES, most_files()) - _OTHERS) // jobs)  # of a thread
        self._checked: set[tuple[int, int]] = set()
        self._mine = threading.local()
        self._all: list[JoinedSource] = []

    def source(self) -> JoinedSource:
        """Return the inputs as one source, for this thread. Its functions raise SourceError, OSError."""
        found: JoinedSource | None = getattr(self._mine, "source", None)
        if found is None:
            found = self._mine.source = JoinedSource(self._opened, self._most)
            self._all.append(found)
        return found

    def _most(self, number: int) -> int:
        """Return how many inputs stay open beside one; of those that are unpacked each time, a few."""
        found = self._inputs[number]
        return self._files if found.is_local or found.copy is not None else _COPIES

    def identity(self, number: int) -> dict[str, object]:
        """Return what the input was when it was looked at."""
        return self._inputs[number].identity

    def url(self, number: int) -> str:
        """Return the url of an input."""
        return self._inputs[number].url

    def close(self) -> None:
        """Close what all threads have open; they must have ended."""
        for source in self._all:
            source.close()

    def refuse_changed(self) -> None:
        """Raise SourceChangedError if an input is not what it was any more."""
        for found in self._inputs:
            if found.rows:
                self._check(found)

    @contextmanager
    def _opened(self, number: int) -> Iterator[Source]:
        found, known = self._inputs[number], (threading.get_ident(), number)
        if known not in self._checked:
            self._check(found)
            self._checked.add(known)
        if found.copy is not None or found.is_local:
            path = str(found.copy) if found.copy is not None else str(local_path(found.url))
            with LocalSource(found.url, open_file(path)) as source:
                yield source
        else:
            with seekable(found.url, self._folder, here=False) as (far, _):
                yield far

    @staticmethod
    def _check(found: InputReport) -> None:
        if not found.url.startswith("pipe:") and input_identity(found.url) != found.identity:
            raise SourceChangedError(os.path.basename(found.url))


def most_files() -> int:
    """Return how many files this process may keep open, at most some thousand."""
    try:
        import resource
    except ImportError:  # not Unix
        return _FILES
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _FILES if soft == resource.RLIM_INFINITY else soft
