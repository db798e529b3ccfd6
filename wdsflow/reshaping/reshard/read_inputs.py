"""The first pass, which notes the samples of each input, and the inputs as the second pass reads them."""

import os
import threading
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from threading import Event

import numpy as np

from wdsflow.pieces.pieces import moved
from wdsflow.pieces.tar_view import JoinedSource
from wdsflow.pieces.writer import write_pieces
from wdsflow.shards.atomic import UNREADABLE, writing
from wdsflow.shards.samples.tar_samples import Samples, TarSample
from wdsflow.shards.shard import Shard
from wdsflow.shards.shard_identity import fingerprint, input_identity
from wdsflow.shards.source.base import LocalSource, Piece, Source, SourceChangedError, SourceError, open_file
from wdsflow.shards.source.opening import Packing, open_source, seekable, unpack
from wdsflow.text.shell import escape

from .arrange import COLUMNS, PIECE, RowFile
from .reshard_report import InputReport

_COPIES = 2  # shards unpacked onto the disk that a thread keeps
_FILES, _OTHERS = 1024, 256  # most files that all threads keep open; descriptors for other uses
_MOST_FIELDS = (1 << 16) - 1
_UNUSABLE = {"beside-damage": "next to damage: it may have lost members", "sparse-member": "it has a sparse member"}


class OpenInputs:
    """The inputs as one source; one for each thread, because opening an input may close another."""

    def __init__(self, inputs: list[InputReport], folder: Path, jobs: int) -> None:
        self.inputs, self._folder = inputs, folder
        self._files = max(8, (min(_FILES, _most_files()) - _OTHERS) // jobs)  # of a thread
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
        """Return how many other inputs stay open; few, if they are unpacked each time."""
        return _COPIES if self.inputs[number].path is None else self._files

    def close(self) -> None:
        """Close the sources of all threads, which must have ended."""
        for source in self._all:
            source.close()

    def refuse_changed(self) -> None:
        """Raise SourceChangedError if an input has changed."""
        for found in self.inputs:
            if found.rows:
                _refuse_changed(found)

    @contextmanager
    def _opened(self, number: int) -> Iterator[Source]:
        found, known = self.inputs[number], (threading.get_ident(), number)
        if known not in self._checked:
            _refuse_changed(found)
            self._checked.add(known)
        if found.path is not None:
            with LocalSource(found.url, open_file(str(found.path))) as source:
                yield source
        else:
            with seekable(found.url, self._folder, here=False) as (far, _):
                yield far


def _refuse_changed(found: InputReport) -> None:
    if not found.url.is_pipe and input_identity(found.url) != found.identity:
        raise SourceChangedError(os.path.basename(found.url))


def _most_files() -> int:
    """Return how many files this process may keep open, at most a few thousand."""
    try:
        import resource
    except ImportError:  # not Unix
        return _FILES
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _FILES if soft == resource.RLIM_INFINITY else soft


@dataclass(frozen=True)
class InputJob:
    """One input to look at."""

    number: int
    url: Shard
    scratch: Path
    anywhere: bool = False  # it will be read in any order: a compressed or remote one is copied into ``scratch``
    keys: bool = False  # note the keys as well
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
    def copies(self) -> Path:
        """The folder for copies of it."""
        return self.scratch / "copies"


def read_input(job: InputJob, stop: Event) -> InputReport:
    """Note the samples of an input in ``job.rows``, in order; read errors are in the report.

    Raises OSError if the scratch folder cannot be written.
    """
    found = InputReport(job.number, job.url)
    try:
        found.identity = input_identity(job.url)
        packing = Packing()
        is_pipe = job.url.is_pipe
        with open_source(job.url) if job.anywhere and not is_pipe else nullcontext() as source:
            is_plain = source is None or source.fd >= 0
        if is_pipe or not is_plain:
            packing = _copied(job, found)
        global_records = _noted(job, found, packing, stop)
        if global_records is None:
            found = InputReport(job.number, job.url, identity=found.identity)
            packing = _copied(job, found)
            global_records = _noted(job, found, packing, stop)
        if global_records:
            _with_plain_headers(job, found, packing, stop)
        _refuse_changed(found)
    except OSError as error:
        if not isinstance(error, SourceError) and error.errno not in UNREADABLE:
            raise
        job.rows.remove()
        found = InputReport(job.number, job.url, damage=[*found.damage, str(error)], identity=found.identity)
    found.check()
    return found


def _noted(job: InputJob, found: InputReport, packing: Packing, stop: Event) -> bool | None:
    """Note the samples of an input or its copy; None if it is a damaged stream that must be copied.

    Whether samples of a stream are valid is known at its end. Raises as ``note_samples``.
    """
    with open_source(found.location) as source:
        if found.path is not None:
            trouble = packing.mark(source)
            found.damage += [trouble] if trouble else []
        elif source.fd >= 0:
            found.path = Path(str(job.url.path))
        global_records = note_samples(source, job, found, stop)
        return None if found.lost and not source.random else global_records


def key_bytes(key: str) -> bytes:
    """Return a key as it is in the tar."""
    return key.encode("utf-8", "surrogateescape")


def note_samples(source: Source, job: InputJob, found: InputReport, stop: Event) -> bool:
    """Note the samples of a tar in ``job.rows``; return whether global headers changed names or sizes.

    Raises SourceError, OSError, InterruptedError after ``stop``.
    """
    samples, notes = Samples(source, contents=False, keep=False), _Notes(job, found)
    for sample in samples:
        notes.add(sample)
        if stop.is_set():
            raise InterruptedError("given up")
    notes.end()
    found.members, found.left_out = samples.members, samples.left_out
    found.damage += samples.damage
    return samples.global_records


class _Notes:
    """Notes the samples of one tar."""

    def __init__(self, job: InputJob, found: InputReport) -> None:
        from xxhash import xxh3_64_intdigest

        self._job, self._found, self._rows = job, found, job.rows
        self._rows.remove()
        job.key_file.unlink(missing_ok=True)
        self._digest = xxh3_64_intdigest
        self._numbers, self._keys = array("Q"), list[bytes]()  # of rows not yet in the file
        self._shapes: dict[tuple[str, ...] | None, int] = {}  # None: the rest of a damaged sample
        self._digests, self._shape_of = array("Q"), array("L")  # of all samples

    def add(self, sample: TarSample) -> None:
        """Note a sample."""
        found, key = self._found, key_bytes(sample.key)
        digest = self._digest(key)
        names = None if sample.trouble == "beside-damage" else sample.names or tuple(sample.fields)
        if names is not None:
            found.first = found.first if found.first[1] else (sample.key, names)
            found.last = sample.key, names
        self._digests.append(digest)
        self._shape_of.append(self._shapes.setdefault(names, len(self._shapes)))
        found.samples += 1
        if sample.trouble and sample.trouble in _UNUSABLE:
            found.dropped[_UNUSABLE[sample.trouble]] += 1
            return
        place = found.number << 16 | min(len(sample.fields), _MOST_FIELDS)
        self._numbers.extend((digest, sample.start, sample.end, place))
        if self._job.keys:
            self._keys += [len(key).to_bytes(4, "little"), key]
        if len(self._numbers) >= COLUMNS * PIECE:
            self._flush()

    def end(self) -> None:
        """Note the last samples."""
        self._flush()
        self._found.rows = self._rows.count
        self._find_apart()

    def _flush(self) -> None:
        self._rows.append(np.frombuffer(self._numbers, np.uint64).reshape(-1, COLUMNS))
        if self._keys:
            with open(self._job.key_file, "ab") as file:
                file.writelines(self._keys)
        self._numbers, self._keys = array("Q"), []

    def _find_apart(self) -> None:
        """Find samples whose key occurs again with other fields only."""
        if len(self._shapes) < 2:
            return
        digests = np.frombuffer(self._digests, np.uint64)
        order = np.argsort(digests, kind="stable")
        shapes, seen = list(self._shapes), dict[int, int]()
        for at in np.flatnonzero(digests[order][1:] == digests[order][:-1]).tolist():
            first, second = order[at : at + 2].tolist()
            one, other = shapes[self._shape_of[first]], shapes[self._shape_of[second]]
            if one is not None and other is not None and set(one).isdisjoint(other):
                seen.setdefault(self._digests[first], first)
        self._found.apart, self._found.apart_at = len(seen), min(seen.values(), default=0)


class MembersApart(ValueError):
    """Samples whose members are not next to each other."""


def refuse_apart(inputs: Sequence[InputReport]) -> None:
    """Raise MembersApart if members of one sample are not next to each other."""
    total = sum(found.apart for found in inputs)
    where = next((found for found in inputs if found.apart), None)
    key = ""
    if where is not None:
        with suppress(SourceError), open_source(where.location) as source:
            keys = (sample.key for sample in Samples(source, contents=False))
            key = next(islice(keys, where.apart_at, None), "")
    for one, other in pairwise(found for found in inputs if found.last[1]):  # inputs with samples
        if one.last[0] == other.first[0] and set(one.last[1]).isdisjoint(other.first[1]):
            total += 1
            where, key = (one, one.last[0]) if where is None else (where, key)
    if where is not None:
        which = "1 sample has" if total == 1 else f"{total:,} samples have"
        raise MembersApart(
            f"{which} members that are not next to each other, such as {escape(key)} in {where.url}:"
            " resharding would part them"
        )


def _copied(job: InputJob, found: InputReport) -> Packing:
    """Copy an input into the scratch folder, unpacked; return the problem of its compression."""
    found.path = job.copies / f"{job.number}.tar"
    with open_source(job.url, allow_pipe=job.allow_pipe) as source, writing(found.path) as file:
        unpack(source, file, job.copies)
    if job.url.is_pipe:  # nothing else identifies it
        found.identity = {"url": job.url, **fingerprint(str(found.path))}
    return Packing.of(source)


def _with_plain_headers(job: InputJob, found: InputReport, packing: Packing, stop: Event) -> None:
    """Replace an input by a copy whose members have their own headers: its global headers apply to no other tar."""
    before, plain = found.rows, job.copies / f"{job.number}.plain.tar"

    def pieces(samples: Samples) -> Iterator[Piece]:
        for sample in samples:
            if stop.is_set():
                raise InterruptedError("given up")
            if sample.trouble not in _UNUSABLE:
                for name, size, data, _, _ in sample.fields.values():
                    yield from moved(name, data, size)

    with seekable(found.location, job.copies) as (source, _):
        if found.path:
            packing.mark(source)
        write_pieces(plain, source, pieces(Samples(source, contents=False)))
    again = InputReport(job.number, job.url)
    with open_source(Shard.file(str(plain))) as copy:
        note_samples(copy, job, again, stop)
    if again.rows != before:
        raise SourceError("io", f"{before:,} samples were found, and {again.rows:,} with plain headers")
    found.path = plain
