"""The inputs of the second pass, kept open by each thread as long as there is room."""

import os
import threading
from collections import OrderedDict
from contextlib import ExitStack
from pathlib import Path

from wdsflow.shards.shard_identity import input_identity
from wdsflow.shards.source.base import LocalSource, Source, SourceChangedError, local_path, open_file
from wdsflow.shards.source.unpack import seekable

from .input_report import InputReport

_COPIES = 2  # shards unpacked onto the disk that a thread keeps
_FILES, _OTHERS = 1024, 256  # files that all threads keep open, at most; what the process needs besides


class OpenInputs:
    """Opens inputs by their numbers; a thread gets sources of its own, because opening one may close another."""

    def __init__(self, inputs: list[InputReport], folder: Path, jobs: int) -> None:
        self._inputs, self._folder = inputs, folder
        self._files = max(8, (min(_FILES, most_files()) - _OTHERS) // jobs)  # of a thread
        self._checked: set[tuple[int, int]] = set()
        self._mine = threading.local()
        self._all: list[OrderedDict[int, tuple[Source, ExitStack]]] = []

    def get(self, number: int) -> Source:
        """Return an input, open until the next call. Raises SourceError, SourceChangedError, OSError."""
        opened: OrderedDict[int, tuple[Source, ExitStack]] | None = getattr(self._mine, "opened", None)
        if opened is None:
            opened = self._mine.opened = OrderedDict()
            self._all.append(opened)
        if number in opened:
            opened.move_to_end(number)
            return opened[number][0]
        found = self._inputs[number]
        is_file = found.is_local or found.copy is not None
        while len(opened) >= (self._files if is_file else _COPIES):
            _, (_, stack) = opened.popitem(last=False)
            stack.close()
        stack = ExitStack()
        with ExitStack() as failing:
            failing.push(stack.__exit__)
            source = self._open(found, stack)
            failing.pop_all()
        opened[number] = source, stack
        return source

    def identity(self, number: int) -> dict[str, object]:
        """Return what the input was when it was looked at."""
        return self._inputs[number].identity

    def url(self, number: int) -> str:
        """Return the url of an input."""
        return self._inputs[number].url

    def close(self) -> None:
        """Close what all threads have open; they must have ended."""
        for opened in self._all:
            while opened:
                opened.popitem()[1][1].close()

    def refuse_changed(self) -> None:
        """Raise SourceChangedError if an input is not what it was any more."""
        for found in self._inputs:
            if found.rows:
                self._check(found)

    def _open(self, found: InputReport, stack: ExitStack) -> Source:
        known = threading.get_ident(), found.number
        if known not in self._checked:
            self._check(found)
            self._checked.add(known)
        if found.copy is not None or found.is_local:
            path = str(found.copy) if found.copy is not None else str(local_path(found.url))
            source: Source = LocalSource(found.url, open_file(path))
            return stack.enter_context(source)
        return stack.enter_context(seekable(found.url, self._folder, here=False))[0]

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
