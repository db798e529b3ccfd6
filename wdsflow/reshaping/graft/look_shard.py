"""The first pass over a shard: places and join values of its samples, noted in files."""

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from wdsflow.filtering.ledger.ledger_row import in_utf8
from wdsflow.shards.caption_field import look_up, parse_json
from wdsflow.shards.samples.tar_samples import Samples, TarSample, is_harmless
from wdsflow.shards.shard import Shard
from wdsflow.shards.shard_identity import input_identity
from wdsflow.shards.shard_names import IMAGE_FIELDS
from wdsflow.shards.source.base import Range, Source, SourceChangedError, SourceError
from wdsflow.shards.source.opening import seekable

from .join_on import JoinOn, join_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from wdsflow.shards.tar.plain_entries import Row

CHECKED = ("url", "sha256")  # these show whether keys still mean the samples of the table
CHECKED_IMAGE = "image_xxh3"  # of a ledger: the hash of the image, which is compared for a few samples of each shard
_CHUNK = 4 << 20  # bytes of an image
_IMAGES = 16  # of a shard, whose hashes are compared
_AT_ONCE = 4096  # samples of a line in a file of notes, about

# Endings of the files of a shard: samples, what they are joined on, hashes of their keys; of the join: the row of each
# sample, 8 bytes each (its number from 0, or a number below 0), and the values of those that have one, in Parquet.
NOTES, JOINS, KEYS, ROWS, VALUES = ".samples", ".joins", ".keys", ".rows", ".values"


@dataclass(frozen=True)
class Wanted:
    """The data to look for.

    ``checked``: the columns of ``CHECKED`` that the table has, or ``CHECKED_IMAGE``; ``digits``: hexadecimal digits
    of the table's hashes; ``touched``: the fields that will be set.
    """

    on: JoinOn
    touched: tuple[str, ...] = ()
    checked: tuple[str, ...] = ()
    digits: int = 32


@dataclass(frozen=True)
class LookJob:
    """One shard to look at: ``place``: for the notes on its samples; ``scope`` precedes its keys in the table."""

    url: Shard
    place: Path
    scope: str = ""
    allow_pipe: bool = False

    def opened(self) -> AbstractContextManager[tuple[Source, str]]:
        """Open the shard for a block, as ``seekable`` does. Raises SourceError, OSError."""
        return seekable(self.url, self.place.parent, allow_pipe=self.allow_pipe, here=False)

    def identity(self) -> dict[str, object]:
        """Return an identity that changes with the shard. Raises SourceError."""
        return input_identity(self.url)

    def numbers(self, ending: str) -> "NDArray[np.int64]":
        """Return the numbers in one of its files. Without np.load, which may fail in concurrent threads (gh-106905)."""
        import numpy as np

        return np.fromfile(self.place.with_suffix(ending), np.int64)

    def uncounted(self, written: "NDArray[np.bool_]") -> int:
        """Return how many of the written samples ``validate`` does not count, because their key is a duplicate."""
        import numpy as np

        keys = self.numbers(KEYS)[written]
        return len(keys) - len(np.unique(keys))


@dataclass
class ShardLook:
    """The result of the first pass over a shard."""

    url: Shard
    inputs: dict[str, object] = field(default_factory=dict)
    samples: int = 0
    left_out: dict[str, int] = field(default_factory=dict)  # members that belong to no sample, by reason
    troubles: dict[str, int] = field(default_factory=dict)  # samples next to damage
    lost: list[str] = field(default_factory=list)
    unread: bool = False
    noted: bool = False  # whether the places of all samples were noted
    headers: list[Range] = field(default_factory=list)
    renaming: bool = False  # a global header changes names or sizes


def look_at(job: LookJob, stop: Event, *, wanted: Wanted) -> ShardLook:
    """Look at a shard. Raises OSError if the notes cannot be written."""
    try:
        look = ShardLook(job.url, job.identity(), noted=not job.url.is_pipe)  # its bytes may differ the next time
        with (
            job.opened() as (source, damage),
            open(job.place.with_suffix(NOTES), "wb") as notes,
            open(job.place.with_suffix(JOINS), "wb") as joins,
        ):
            walk = _Look(look, job, wanted, notes, joins)
            walk.run(source, stop)
        look.lost += [damage] if damage else []
        if job.identity() != look.inputs:
            raise SourceChangedError
    except SourceError as error:
        return ShardLook(job.url, lost=[str(error)], unread=True)
    job.place.with_suffix(KEYS).write_bytes(walk.keys.tobytes())
    return look


class _Look:
    def __init__(self, look: ShardLook, job: LookJob, wanted: Wanted, notes: BinaryIO, joins: BinaryIO) -> None:
        self._look, self._job, self._wanted, self._notes_file, self._joins_file = look, job, wanted, notes, joins
        self._notes, self._joins = NotedSamples(wanted.touched), JoinValues([], [], [])
        self.keys = array("Q")

    def run(self, source: Source, stop: Event) -> None:
        from xxhash import xxh3_64_intdigest

        wanted, look = self._wanted, self._look
        samples = Samples(source, contents=False, keep=wanted.on.kind == "json" or bool(wanted.checked))
        value_of, troubles = self._way(samples), Counter[str]()
        for number, sample in enumerate(samples):
            joins = self._joins
            if look.noted:
                self._notes.add(sample)
            self.keys.append(xxh3_64_intdigest(sample.key.encode("utf-8", "surrogateescape")))
            if sample.trouble:
                joins.damaged.append(len(joins.values))
                troubles[sample.trouble] += 1
            joins.values.append(None if sample.trouble else value_of(sample))
            if wanted.checked:
                joins.checked.append([] if sample.trouble else self._checked(samples, sample))
            if not number & 63 and stop.is_set():
                raise InterruptedError("given up")
            if len(joins.values) >= _AT_ONCE:
                self._write()
        self._write()
        look.left_out, look.troubles = dict(samples.left_out), dict(troubles)
        look.headers, look.renaming = samples.headers, samples.global_records
        look.lost += [each for each in samples.damage if not is_harmless(each)]

    def _write(self) -> None:
        import orjson

        if self._look.noted:
            try:
                self._notes_file.write(orjson.dumps(vars(self._notes)) + b"\n")
            except TypeError:  # a name that is not UTF-8
                self._look.noted = False
            self._notes = NotedSamples(self._wanted.touched)
        self._look.samples += len(self._joins.values)
        self._joins_file.write(orjson.dumps([*self._joins]) + b"\n")
        self._joins = JoinValues([], [], [])

    def _checked(self, samples: Samples, sample: TarSample) -> list[str | None]:
        if self._wanted.checked[0] == CHECKED_IMAGE:
            return [_digest(samples, sample, "xxh3", 32) if sample.number < _IMAGES else None]
        tree = _json(samples, sample)
        return [join_text(look_up(tree, column), column) for column in self._wanted.checked]

    def _way(self, samples: Samples) -> Callable[[TarSample], str | None]:
        """Return the function from a sample to its value."""
        on, scope = self._wanted.on, self._job.scope
        if on.kind == "key":
            return lambda sample: scope + in_utf8(sample.key)
        if on.kind == "json":
            return lambda sample: join_text(look_up(_json(samples, sample), on.name), "json")
        return lambda sample: _digest(samples, sample, on.kind, self._wanted.digits)


def _json(samples: Samples, sample: TarSample) -> object:
    row = sample.fields.get("json")
    try:
        return None if row is None else parse_json(samples.read(row))
    except ValueError:
        return None


def _digest(samples: Samples, sample: TarSample, kind: str, digits: int) -> str | None:
    """Return the hash of the image, hexadecimal; None if the sample has none."""
    from xxhash import xxh3_64, xxh3_128

    row = next((sample.fields[name] for name in IMAGE_FIELDS if name in sample.fields), None)
    if row is None:
        return None
    digest = sha256() if kind == "sha256" else xxh3_64() if digits == 16 else xxh3_128()
    for start in range(0, row[1], _CHUNK):
        digest.update(samples.read(row, start, _CHUNK))
    return str(digest.hexdigest())


def digits_of(values: Sequence[str]) -> int:
    """Return the number of hexadecimal digits of a table's xxh3 hashes: 16 if all of these have 16, otherwise 32.

    >>> digits_of(["00ff00ff00ff00ff"]), digits_of([])
    (16, 32)
    """
    return 16 if values and all(len(value) == 16 for value in values) else 32


class JoinValues(NamedTuple):
    """Join values of neighbouring samples, damage next to them, and their values for the checked columns.

    ``checked``: for each sample, a value for each column, or nothing; empty if nothing is checked.
    """

    values: list[str | None]
    damaged: list[int]
    checked: list[list[str | None]]

    @staticmethod
    def read(place: Path) -> Iterator["JoinValues"]:
        """Yield the contents of a shard's file. Raises OSError."""
        import orjson

        with open(place.with_suffix(JOINS), "rb") as lines:
            yield from (JoinValues(*orjson.loads(line)) for line in lines)


class NotedSamples:
    """Neighbouring samples, as columns: start, end and members of some ``fields`` of each."""

    def __init__(self, fields: Iterable[str] = ()) -> None:
        self.keys: list[str] = []
        self.start: list[int] = []
        self.end: list[int] = []
        self.trouble: list[str] = []
        self.fields: dict[str, list[Row | None]] = {name: [] for name in fields}

    def add(self, sample: TarSample) -> None:
        """Note a sample."""
        self.keys.append(sample.key)
        self.start.append(sample.start)
        self.end.append(sample.end)
        self.trouble.append(sample.trouble)
        for name, rows in self.fields.items():
            rows.append(sample.fields.get(name))

    def sample(self, place: int) -> TarSample:
        """Return one of them, with the fields that were noted, and without its number."""
        sample = TarSample(0, self.keys[place], self.start[place])
        sample.end, sample.trouble = self.end[place], self.trouble[place]
        sample.fields = {name: row for name, rows in self.fields.items() if (row := rows[place]) is not None}
        return sample

    @staticmethod
    def read(place: Path) -> Iterator["NotedSamples"]:
        """Yield the samples of a shard's file. Raises OSError."""
        import orjson

        with open(place.with_suffix(NOTES), "rb") as lines:
            for line in lines:
                notes = NotedSamples()
                vars(notes).update(orjson.loads(line))
                yield notes

    @staticmethod
    def of(samples: Iterable[TarSample], fields: Sequence[str]) -> Iterator["NotedSamples"]:
        """Yield samples in the noted form, in chunks."""
        notes = NotedSamples(fields)
        for sample in samples:
            notes.add(sample)
            if len(notes.keys) == _AT_ONCE:
                yield notes
                notes = NotedSamples(fields)
        if notes.keys:
            yield notes
