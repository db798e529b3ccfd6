"""The first pass over a shard: what its samples are joined on, noted on the disk."""

from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, BinaryIO

from wdsflow.filtering.ledger.ledger_row import in_utf8
from wdsflow.shards.caption_field import look_up, parse_json
from wdsflow.shards.samples.tar_sample import TarSample, is_harmless
from wdsflow.shards.samples.tar_samples import Samples
from wdsflow.shards.shard_identity import input_identity
from wdsflow.shards.shard_names import IMAGE_FIELDS
from wdsflow.shards.source.base import Range, Source, SourceChangedError, SourceError
from wdsflow.shards.source.opening import seekable

from .join_on import JoinOn, join_text
from .noted_samples import AT_ONCE, JoinValues, NotedSamples, write_notes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


CHECKED = ("url", "sha256")  # by these, keys are compared with what they were when the table was made
CHECKED_IMAGE = "image_xxh3"  # of a ledger: the hash of the image, which is compared for a few samples of each shard
_CHUNK = 4 << 20  # bytes of an image
_IMAGES = 16  # of a shard, whose hashes are compared


@dataclass(frozen=True)
class Wanted:
    """What is looked for.

    ``checked``: the columns of ``CHECKED`` that the table has, or ``CHECKED_IMAGE``; ``digits``: how many hexadecimal digits
    the table's hashes have; ``touched``: the fields that will be set.
    """

    on: JoinOn
    touched: tuple[str, ...] = ()
    checked: tuple[str, ...] = ()
    digits: int = 32


@dataclass(frozen=True)
class LookJob:
    """One shard to look at: ``place`` is where its samples are noted, ``scope`` what is before its keys in the table."""

    url: str
    place: Path
    scope: str = ""
    allow_pipe: bool = False

    def opened(self) -> AbstractContextManager[tuple[Source, str]]:
        """Open the shard for a block, as ``seekable`` does. Raises SourceError, OSError."""
        return seekable(self.url, self.place.parent, allow_pipe=self.allow_pipe, here=False)

    def identity(self) -> dict[str, object]:
        """Return what tells the shard from what it may become. Raises SourceError."""
        return input_identity(self.url)


@dataclass
class ShardLook:
    """What the first pass found in a shard."""

    url: str
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
        inputs = job.identity()
        look = ShardLook(job.url, inputs)
        with (
            job.opened() as (source, damage),
            open(notes_file(job.place), "wb") as notes,
            open(joins_file(job.place), "wb") as joins,
        ):
            walk = _Look(look, job, wanted, notes, joins)
            walk.run(source, stop)
        look.lost += [damage] if damage else []
        if job.identity() != inputs:
            raise SourceChangedError
    except SourceError as error:
        return ShardLook(job.url, lost=[str(error)], unread=True)
    keys_file(job.place).write_bytes(walk.keys.tobytes())
    return look


def notes_file(place: Path) -> Path:
    """Return the file with the places of samples."""
    return place.with_suffix(".samples")


def joins_file(place: Path) -> Path:
    """Return the file with what the samples are joined on."""
    return place.with_suffix(".joins")


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
    def __init__(self, look: ShardLook, job: LookJob, wanted: Wanted, notes: BinaryIO, joins: BinaryIO) -> None:
        from xxhash import xxh3_64_intdigest

        self._look, self._job, self._wanted, self._notes_file, self._joins_file = look, job, wanted, notes, joins
        self._digest = xxh3_64_intdigest
        self._notes = NotedSamples(wanted.touched)
        look.noted = not job.url.startswith("pipe:")  # a command may give other bytes the next time
        self.keys = array("Q")
        self._joins = JoinValues([], [], [])

    def run(self, source: Source, stop: Event) -> None:
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
            if len(self._joins.values) >= AT_ONCE:
                self._write()
        self._write()
        self._look.left_out, self._look.troubles = dict(samples.left_out), dict(troubles)
        self._look.headers, self._look.renaming = samples.headers, samples.global_records
        self._look.lost += [each for each in samples.damage if not is_harmless(each)]

    def _add(self, sample: TarSample, samples: Samples, value_of: Callable[[TarSample], str | None]) -> None:
        if self._look.noted:
            self._notes.add(sample)
        self.keys.append(self._digest(sample.key.encode("utf-8", "surrogateescape")))
        joins = self._joins
        if sample.trouble:
            joins.damaged.append(len(joins.values))
        joins.values.append(None if sample.trouble else value_of(sample))
        if self._wanted.checked:
            joins.told.append(self._checked(samples, sample) if not sample.trouble else [])

    def _write(self) -> None:
        if self._look.noted:
            self._look.noted = write_notes(self._notes_file, self._notes)
            self._notes = NotedSamples(self._wanted.touched)
        self._look.samples += len(self._joins.values)
        self._joins.write(self._joins_file)
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
