"""The inputs as the second pass reads them.

Each thread has one source, which opens and closes them as needed.
"""

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from wdsflow.pieces.joined_source import JoinedSource
from wdsflow.shards.shard_identity import input_identity
from wdsflow.shards.source.base import LocalSource, Source, SourceChangedError, open_file
from wdsflow.shards.source.opening import seekable

from .reshard_report import InputReport

# Shards that a thread keeps unpacked on the disk.
_COPIES_PER_THREAD = 2
# The most files that all threads keep open together, and
# the descriptors that are left for everything else.
_MOST_FILES = 1024
_OTHER_DESCRIPTORS = 256
_FEWEST_FILES_PER_THREAD = 8


class OpenInputs:
    """The inputs as one source for each thread.

    Threads do not share sources, because opening an input may close another.

    Args:
        inputs: the reports of the first pass, by number.
        folder: for inputs that must be unpacked.
        jobs: the number of threads.
    """

    def __init__(self, inputs: Sequence[InputReport], folder: Path, jobs: int) -> None:
        self.inputs = inputs
        self._folder = folder
        files = min(_MOST_FILES, _descriptor_limit()) - _OTHER_DESCRIPTORS
        self._files_per_thread = max(_FEWEST_FILES_PER_THREAD, files // jobs)
        # Inputs that were compared with the first pass, by thread and number.
        self._compared: set[tuple[int, int]] = set()
        self._of_thread = threading.local()
        self._sources: list[JoinedSource] = []

    def source(self) -> JoinedSource:
        """Return the inputs as one source for this thread.

        Its functions raise SourceError, OSError.
        """
        source: JoinedSource | None = getattr(self._of_thread, "source", None)
        if source is None:
            source = JoinedSource(self._opened, self._most_open)
            self._of_thread.source = source
            self._sources.append(source)
        return source

    def close(self) -> None:
        """Close the sources of all threads, which must have ended."""
        for source in self._sources:
            source.close()

    def refuse_changed(self) -> None:
        """Raise SourceChangedError if an input has changed."""
        for report in self.inputs:
            if report.rows:
                refuse_changed(report)

    def _most_open(self, number: int) -> int:
        """Return how many other inputs stay open next to this one.

        Few if they are unpacked each time.
        """
        is_unpacked_to_read = self.inputs[number].path is None
        return _COPIES_PER_THREAD if is_unpacked_to_read else self._files_per_thread

    @contextmanager
    def _opened(self, number: int) -> Iterator[Source]:
        report = self.inputs[number]
        thread_and_number = threading.get_ident(), number
        if thread_and_number not in self._compared:
            refuse_changed(report)
            self._compared.add(thread_and_number)
        if report.path is not None:
            with LocalSource(report.url, open_file(str(report.path))) as source:
                yield source
        else:
            with seekable(report.url, self._folder, here=False) as (source, _):
                yield source


def refuse_changed(report: InputReport) -> None:
    """Raise SourceChangedError if an input has changed since it was read.

    The output of a command cannot be compared.
    """
    if not report.url.is_pipe and input_identity(report.url) != report.identity:
        raise SourceChangedError(os.path.basename(report.url))


def _descriptor_limit() -> int:
    """Return how many files this process may open."""
    try:
        import resource
    except ImportError:
        # Not Unix.
        return _MOST_FILES
    soft_limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST_FILES if soft_limit == resource.RLIM_INFINITY else soft_limit
