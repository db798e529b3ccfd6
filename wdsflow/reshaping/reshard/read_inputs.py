"""The inputs of the second pass, kept open by each thread as long as there is room."""

import errno
import os
import threading
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import BinaryIO

from wdsflow.pieces.new_members import moved
from wdsflow.pieces.tar_view import JoinedSource
from wdsflow.pieces.writer import write_pieces
from wdsflow.shards.atomic import writing
from wdsflow.shards.samples.tar_samples import Samples, TarSample
from wdsflow.shards.shard_identity import fingerprint, input_identity
from wdsflow.shards.source.base import (
    LocalSource,
    Piece,
    Source,
    SourceChangedError,
    SourceError,
    local_path,
    open_file,
)
from wdsflow.shards.source.opening import Packing, open_source, seekable, unpack

from .input_report import InputReport, SampleShapes
from .sample_rows import COLUMNS, PIECE, RowFile, rows_of

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


CANNOT_READ = (errno.EIO, errno.ESTALE, errno.ETIMEDOUT)
_MOST_FIELDS = (1 << 16) - 1
NEXT_TO_DAMAGE = "next to damage: it may have lost members"
SPARSE = "it has a sparse member"


@dataclass(frozen=True)
class InputJob:
    """One input to look at."""

    number: int
    url: str
    scratch: Path
    anywhere: bool  # it will be read in any order: what is packed or elsewhere is copied into ``scratch``
    keys: bool  # note the keys as well
    allow_pipe: bool = False

    @property
    def rows(self) -> RowFile:
        """The file for its rows."""
        return RowFile(self.scratch / f"{self.number}.rows")

    @property
    def key_file(self) -> Path:
        """The file for its keys: for each its length in 4 bytes, and its bytes."""
        return self.scratch / f"{self.number}.keys"

    @property
    def copy(self) -> Path:
        """The file for a copy of it."""
        return self.scratch / "copies" / f"{self.number}.tar"


def read_input(job: InputJob, stop: Event) -> InputReport:
    """Note the samples of an input in ``job.rows``, in their order; what cannot be read is in the report.

    Raises OSError if the scratch folder cannot be written.
    """
    found = InputReport(job.number, job.url)
    try:
        found.identity = input_identity(job.url)
        packing = Packing()
        if job.url.startswith("pipe:") or (job.anywhere and not _is_plain(job)):
            packing = _copied(job, found)
        global_records = _noted(job, found, packing, stop)
        if global_records is None:
            found = InputReport(job.number, job.url, identity=found.identity)
            packing = _copied(job, found)
            global_records = _noted(job, found, packing, stop)
        if global_records:
            _with_plain_headers(job, found, packing, stop)
        if not job.url.startswith("pipe:") and input_identity(job.url) != found.identity:
            raise SourceChangedError
    except OSError as error:
        if not isinstance(error, SourceError) and error.errno not in CANNOT_READ:
            raise
        job.rows.remove()
        found = InputReport(job.number, job.url, damage=[*found.damage, str(error)], identity=found.identity)
    found.check()
    return found


def _noted(job: InputJob, found: InputReport, packing: Packing, stop: Event) -> bool | None:
    """Note the samples of an input or its copy; None if it is a damaged stream, of which a copy is needed.

    Whether a sample of a stream can be trusted is known at its end. Raises as ``note_samples``.
    """
    with open_source(str(found.copy or job.url)) as source:
        if found.copy is not None:
            trouble = packing.mark(source)
            found.damage += [trouble] if trouble else []
        found.is_local = source.fd >= 0 and found.copy is None
        global_records = note_samples(source, job, found, stop)
        return None if found.lost and not source.random else global_records


def key_bytes(key: str) -> bytes:
    """Return a key as it is in the tar."""
    return key.encode("utf-8", "surrogateescape")


def _is_plain(job: InputJob) -> bool:
    with open_source(job.url, allow_pipe=job.allow_pipe) as source:
        return source.fd >= 0


def note_samples(source: Source, job: InputJob, found: InputReport, stop: Event) -> bool:
    """Note the samples of a tar in ``job.rows``, and tell whether global headers changed names or sizes.

    Raises SourceError, OSError, InterruptedError after ``stop``.
    """
    samples, rows, shapes = Samples(source, contents=False, keep=False), job.rows, SampleShapes()
    rows.remove()
    with _opened(job.key_file if job.keys else None) as keys:
        notes = _Notes(found, rows, shapes, keys)
        for sample in samples:
            notes.add(sample)
            if len(notes.numbers) >= COLUMNS * PIECE:
                notes.flush()
            if stop.is_set():
                raise InterruptedError("given up")
        notes.flush()
    found.rows, found.members, found.left_out = rows.count, samples.members, samples.left_out
    found.damage += samples.damage
    found.first, found.last, found.apart = shapes.first, shapes.last, shapes.apart()
    return samples.global_records


class _Notes:
    """Notes the samples of one tar."""

    def __init__(self, found: InputReport, rows: RowFile, shapes: SampleShapes, keys: BinaryIO | None) -> None:
        from xxhash import xxh3_64_intdigest

        self.numbers = array("Q")  # of rows that are not in the file yet
        self._rows, self._found, self._keys, self._place = rows, found, keys, found.number << 16
        self._shapes, self._digest = shapes, xxh3_64_intdigest

    def add(self, sample: TarSample) -> None:
        """Note a sample."""
        self._found.samples += 1
        key = key_bytes(sample.key)
        digest = self._digest(key)
        fields_of_it = None if sample.trouble == "beside-damage" else sample.names or tuple(sample.fields)
        self._shapes.add(digest, fields_of_it, sample.key)
        if sample.trouble and (reason := _unusable(sample)):
            self._found.dropped[reason] += 1
            return
        fields = min(len(sample.fields), _MOST_FIELDS)
        self.numbers.extend((digest, sample.start, sample.end, self._place | fields))
        if self._keys is not None:
            self._keys.write(len(key).to_bytes(4, "little") + key)

    def flush(self) -> None:
        """Append the rows to the file."""
        self._rows.append(rows_of(self.numbers))
        self.numbers = array("Q")


def _plain_pieces(samples: Samples, stop: Event) -> Iterator[Piece]:
    for sample in samples:
        if stop.is_set():
            raise InterruptedError("given up")
        if not _unusable(sample):
            for name, size, data, _, _ in sample.fields.values():
                yield from moved(name, data, size)


def _unusable(sample: TarSample) -> str:
    if sample.trouble == "beside-damage":
        return NEXT_TO_DAMAGE
    if sample.trouble == "sparse-member":
        return SPARSE
    return ""


@contextmanager
def _opened(path: Path | None) -> Iterator[BinaryIO | None]:
    if path is None:
        yield None
        return
    with open(path, "wb") as file:
        yield file


def _copied(job: InputJob, found: InputReport) -> Packing:
    """Copy an input into the scratch folder, unpacked; return what is wrong with its packing."""
    found.copy = job.copy
    with open_source(job.url, allow_pipe=job.allow_pipe) as source, writing(job.copy) as file:
        unpack(source, file, job.copy.parent)
    packing = Packing.of(source)
    if job.url.startswith("pipe:"):  # there is nothing else by which it can be known
        found.identity = {"url": job.url, **fingerprint(str(job.copy))}
    return packing


def _with_plain_headers(job: InputJob, found: InputReport, packing: Packing, stop: Event) -> None:
    """Replace an input by a copy whose members have headers of their own: its global headers hold in no other tar."""
    before, plain = found.rows, job.scratch / "copies" / f"{job.number}.plain.tar"
    origin = str(found.copy) if found.copy else job.url
    with seekable(origin, job.copy.parent) as (source, _):
        if found.copy:
            packing.mark(source)
        write_pieces(plain, source, _plain_pieces(Samples(source, contents=False), stop))
    again = InputReport(job.number, job.url)
    with open_source(str(plain)) as copy:
        note_samples(copy, job, again, stop)
    if again.rows != before:
        raise SourceError("io", f"{before:,} samples were found, and {again.rows:,} with plain headers")
    found.copy, found.is_local = plain, False
