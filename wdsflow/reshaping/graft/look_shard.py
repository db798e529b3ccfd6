"""The first pass over a shard: which row of the table each sample has. Nothing is written but that."""

from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, BinaryIO

from wdsflow.filtering.ledger.arrow_columns import in_utf8
from wdsflow.shards.caption_field import look_up, parse_json
from wdsflow.shards.field_names import IMAGE_FIELDS
from wdsflow.shards.samples.tar_sample import Range, TarSample, is_harmless
from wdsflow.shards.samples.tar_samples import Samples
from wdsflow.shards.shard_identity import input_identity
from wdsflow.shards.source.base import Source, SourceChangedError, SourceError
from wdsflow.shards.source.unpack import seekable

from .graft_table import GraftTable
from .join_on import JoinOn, join_text
from .noted_samples import AT_ONCE, NotedSamples, write_notes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


CHECKED = ("url", "sha256")  # by these, keys are compared with what they were when the table was made
CHECKED_IMAGE = "image_xxh3"  # of a ledger: the hash of the image, which is compared for a few samples of each shard
WITHOUT, DAMAGED = -2, -3  # in place of a row: no value to join on, a sample next to damage
SEVERAL = 1 << 62  # added to a row if several rows have the value
_CHUNK = 4 << 20  # bytes of an image
_EXAMPLES = 5
_IMAGES = 16  # of a shard, whose hashes are compared


@dataclass(frozen=True)
class Wanted:
    """What is looked for.

    ``checked``: the columns of ``CHECKED`` that the table has, or ``CHECKED_IMAGE``, with their places in its rows; ``digits``: how many
    hexadecimal digits the table's hashes have; ``touched``: the fields that will be set.
    """

    on: JoinOn
    touched: tuple[str, ...] = ()
    checked: tuple[tuple[str, int], ...] = ()
    digits: int = 32


@dataclass(frozen=True)
class LookJob:
    """One shard to look at: ``place`` is where its rows are noted, ``scope`` what is before its keys in the table."""

    url: str
    place: Path
    scope: str = ""
    allow_pipe: bool = False


@dataclass
class ShardLook:
    """What the first pass found in a shard: for each sample a row, ``ABSENT``, ``WITHOUT`` or ``DAMAGED``."""

    url: str
    inputs: dict[str, Any] = field(default_factory=dict)
    samples: int = 0
    left_out: dict[str, int] = field(default_factory=dict)  # members that belong to no sample, by reason
    troubles: dict[str, int] = field(default_factory=dict)  # samples next to damage
    examples: list[str] = field(default_factory=list)  # values to join on
    compared: dict[str, int] = field(default_factory=dict)  # column -> samples
    contradicted: dict[str, int] = field(default_factory=dict)  # column -> samples
    evidence: list[list[str]] = field(default_factory=list)  # key, column, in the table, in the shard
    lost: list[str] = field(default_factory=list)
    unread: bool = False
    noted: bool = False  # whether the places of all samples were noted
    headers: list[Range] = field(default_factory=list)
    renaming: bool = False  # a global header changes names or sizes


def look_at(job: LookJob, table: GraftTable, wanted: Wanted, stop: Event) -> ShardLook:
    """Look at a shard. Raises OSError if the notes cannot be written."""
    import numpy as np

    try:
        inputs = input_identity(job.url)
        look = ShardLook(job.url, inputs)
        with (
            seekable(job.url, job.place.parent, allow_pipe=job.allow_pipe, here=False) as (source, damage),
            open(notes_file(job.place), "wb") as file,
        ):
            walk = _Look(look, job, table, wanted, file)
            rows = walk.run(source, stop)
        look.lost += [damage] if damage else []
        if input_identity(job.url) != inputs:
            raise SourceChangedError
    except SourceError as error:
        return ShardLook(job.url, lost=[str(error)], unread=True)
    rows.tofile(noted_file(job.place))
    np.frombuffer(walk.keys, np.uint64).tofile(keys_file(job.place))
    return look


def notes_file(place: Path) -> Path:
    """Return the file with the places of samples."""
    return place.with_suffix(".samples")


def noted_file(place: Path) -> Path:
    """Return the file with the row of each sample, before samples are compared: 8 bytes each."""
    return place.with_suffix(".noted")


def numbers_in(path: Path, kind: str = "i8") -> "NDArray[Any]":
    """Return the numbers in a file, 8 bytes each. Not by np.load: it parses text, for which Python 3.11 may fail in two threads at a time (gh-106905)."""
    import numpy as np

    return np.fromfile(path, kind)


def keys_file(place: Path) -> Path:
    """Return the file with a hash of each sample's key."""
    return place.with_suffix(".keys")


def uncounted_of(place: Path, written: "NDArray[np.bool_]") -> int:
    """Return how many of the written samples of a shard are none for ``validate``: those whose key came before."""
    import numpy as np

    keys = numbers_in(keys_file(place), "u8")[written]
    return int(len(keys) - len(np.unique(keys)))


class _Look:
    def __init__(self, look: ShardLook, job: LookJob, table: GraftTable, wanted: Wanted, file: BinaryIO) -> None:
        from xxhash import xxh3_64_intdigest

        self._look, self._job, self._table, self._wanted, self._file = look, job, table, wanted, file
        self._digest = xxh3_64_intdigest
        self._notes = NotedSamples(wanted.touched)
        look.noted = not job.url.startswith("pipe:")  # a command may give other bytes the next time
        self.keys = array("Q")
        self._values: list[str | None] = []
        self._told: list[tuple[str, list[str | None]]] = []  # key, and what its json says of the checked columns
        self._parts: list[Any] = []
        self._damaged: list[int] = []

    def run(self, source: Source, stop: Event) -> "NDArray[Any]":
        import numpy as np

        wanted = self._wanted
        samples = Samples(source, contents=False, keep=wanted.on.kind == "json" or bool(wanted.checked))
        value_of = self._way(samples)
        troubles: Counter[str] = Counter()
        for number, sample in enumerate(samples):
            self._add(sample, samples, value_of)
            if sample.trouble:
                troubles[sample.trouble] += 1
            if not number & 63 and stop.is_set():
                raise InterruptedError("given up")
            if len(self._values) >= AT_ONCE:
                self._find()
        self._find()
        self._look.left_out, self._look.troubles = dict(samples.left_out), dict(troubles)
        self._look.headers, self._look.renaming = samples.headers, samples.global_records
        self._look.lost += [each for each in samples.damage if not is_harmless(each)]
        rows = np.concatenate([np.empty(0, np.int64), *self._parts])
        rows[self._damaged] = DAMAGED
        return rows

    def _add(self, sample: TarSample, samples: Samples, value_of: Callable[[TarSample], str | None]) -> None:
        if self._look.noted:
            self._notes.add(sample)
        self.keys.append(self._digest(sample.key.encode("utf-8", "surrogateescape")))
        if sample.trouble:
            self._damaged.append(sample.number)
        self._values.append(None if sample.trouble else value_of(sample))
        if self._wanted.checked:
            told = self._checked(samples, sample) if not sample.trouble else []
            self._told.append((sample.key, told))

    def _find(self) -> None:
        import numpy as np

        if self._look.noted:
            self._look.noted = write_notes(self._file, self._notes)
            self._notes = NotedSamples(self._wanted.touched)
        self._look.samples += len(self._values)
        if len(self._look.examples) < _EXAMPLES:
            there = (value.removeprefix(self._job.scope) for value in self._values if value is not None)
            self._look.examples += islice(there, _EXAMPLES - len(self._look.examples))
        found = self._table.find(self._values)
        rows = found.rows + np.where(found.several, SEVERAL, 0)
        without = np.array([value is None for value in self._values], np.bool_)
        rows[without] = WITHOUT
        if self._wanted.checked:
            self._check(np.where(found.several, -1, found.rows))
        self._parts.append(rows)
        self._values, self._told = [], []

    def _check(self, rows: "NDArray[Any]") -> None:
        look = self._look
        for (key, told), row in zip(self._told, self._table.values_of(rows), strict=True):
            if row is None:
                continue
            for (column, place), here in zip(self._wanted.checked, told, strict=False):
                there = join_text(row[place + 1], column)
                if here is None or there is None:
                    continue
                look.compared[column] = look.compared.get(column, 0) + 1
                if here != there:
                    look.contradicted[column] = look.contradicted.get(column, 0) + 1
                    if len(look.evidence) < _EXAMPLES:
                        look.evidence.append([in_utf8(key), column, there[:500], here[:500]])

    def _checked(self, samples: Samples, sample: TarSample) -> list[str | None]:
        if self._wanted.checked[0][0] == CHECKED_IMAGE:
            return [_digest(samples, sample, "xxh3", 32) if sample.number < _IMAGES else None]
        tree = _json(samples, sample)
        return [join_text(look_up(tree, column), column) for column, _ in self._wanted.checked]

    def _way(self, samples: Samples) -> Callable[[TarSample], str | None]:
        """Return the function from a sample to its value."""
        on, scope = self._wanted.on, self._job.scope
        if on.kind == "key":
            return lambda sample: scope + in_utf8(sample.key)
        if on.kind == "json":
            return lambda sample: join_text(look_up(_json(samples, sample), on.name), "json")
        return lambda sample: _digest(samples, sample, on.kind, self._wanted.digits)


def _json(samples: Samples, sample: TarSample) -> Any:
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
    digest: Any = sha256() if kind == "sha256" else xxh3_64() if digits == 16 else xxh3_128()
    for start in range(0, row[1], _CHUNK):
        digest.update(samples.read(row, start, _CHUNK))
    return str(digest.hexdigest())


def digits_of(values: Sequence[str]) -> int:
    """Return how many hexadecimal digits the xxh3 hashes of a table have: 16 if all of these have so many, otherwise 32.

    >>> digits_of(["00ff00ff00ff00ff"]), digits_of([])
    (16, 32)
    """
    return 16 if values and all(len(value) == 16 for value in values) else 32
