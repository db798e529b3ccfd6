"""The first pass over a shard: where its samples are, and what they are joined on, is written to files."""

from array import array
from collections import Counter
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, BinaryIO

from wdsflow.shards.samples.tar_damage import is_harmless
from wdsflow.shards.samples.tar_samples import Samples
from wdsflow.shards.shard import Shard
from wdsflow.shards.shard_identity import input_identity
from wdsflow.shards.source.base import Range, Source, SourceChangedError, SourceError
from wdsflow.shards.source.opening import seekable

from .join_on import JoinOn
from .join_values import JOINS, JoinValues, checked_values, join_value
from .sample_notes import AT_ONCE, NOTES, NotedSamples

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Ending of the file of a shard: hashes of its keys, 8 bytes each.
KEYS = ".keys"


@dataclass(frozen=True)
class LookRequest:
    """The data to look for.

    ``checked``: the columns of ``CHECKED`` that the table has, or ``CHECKED_IMAGE``; ``digits``:
    hexadecimal digits of the table's hashes; ``touched``: the fields that will be set.
    """

    on: JoinOn
    touched: tuple[str, ...] = ()
    checked: tuple[str, ...] = ()
    digits: int = 32


@dataclass(frozen=True)
class LookJob:
    """One shard to look at. ``files``: the path of its files, without ending; ``scope`` precedes its keys in the table."""

    url: Shard
    files: Path
    scope: str = ""
    allow_pipe: bool = False

    def opened(self) -> AbstractContextManager[tuple[Source, str]]:
        """Open the shard for a block, as ``seekable`` does. Raises SourceError, OSError."""
        return seekable(self.url, self.files.parent, allow_pipe=self.allow_pipe, here=False)

    def identity(self) -> dict[str, object]:
        """Return an identity that changes with the shard. Raises SourceError."""
        return input_identity(self.url)

    def numbers(self, ending: str) -> "NDArray[np.int64]":
        """Return the numbers in one of its files. Without np.load, which may fail in concurrent threads (gh-106905)."""
        import numpy as np

        return np.fromfile(self.files.with_suffix(ending), np.int64)

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
    # Members that belong to no sample, by reason.
    left_out: dict[str, int] = field(default_factory=dict)
    # Samples next to damage.
    troubles: dict[str, int] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)
    unread: bool = False
    # Whether there are notes on all samples.
    noted: bool = False
    headers: list[Range] = field(default_factory=list)
    # A global header changes names or sizes.
    renaming: bool = False


def look_at(job: LookJob, stop: Event, *, request: LookRequest) -> ShardLook:
    """Look at a shard. Raises OSError if the notes cannot be written."""
    try:
        # Its bytes may differ the next time.
        look = ShardLook(job.url, job.identity(), noted=not job.url.is_pipe)
        with (
            job.opened() as (source, damage),
            open(job.files.with_suffix(NOTES), "wb") as notes,
            open(job.files.with_suffix(JOINS), "wb") as joins,
        ):
            walk = _Look(look, job, request, notes, joins)
            walk.run(source, stop)
        look.lost += [damage] if damage else []
        if job.identity() != look.inputs:
            raise SourceChangedError
    except SourceError as error:
        return ShardLook(job.url, lost=[str(error)], unread=True)
    job.files.with_suffix(KEYS).write_bytes(walk.keys.tobytes())
    return look


class _Look:
    def __init__(
        self, look: ShardLook, job: LookJob, request: LookRequest, notes: BinaryIO, joins: BinaryIO
    ) -> None:
        self._look, self._job, self._request, self._notes_file, self._joins_file = (
            look,
            job,
            request,
            notes,
            joins,
        )
        self._notes, self._joins = NotedSamples(request.touched), JoinValues([], [], [])
        self.keys = array("Q")

    def run(self, source: Source, stop: Event) -> None:
        from xxhash import xxh3_64_intdigest

        request, look = self._request, self._look
        samples = Samples(
            source, contents=False, keep=request.on.kind == "json" or bool(request.checked)
        )
        value_of = join_value(samples, request.on, self._job.scope, request.digits)
        troubles = Counter[str]()
        for number, sample in enumerate(samples):
            joins = self._joins
            if look.noted:
                self._notes.add(sample)
            self.keys.append(xxh3_64_intdigest(sample.key.encode("utf-8", "surrogateescape")))
            if sample.trouble:
                joins.damaged.append(len(joins.values))
                troubles[sample.trouble] += 1
            joins.values.append(None if sample.trouble else value_of(sample))
            if request.checked:
                joins.checked.append(
                    [] if sample.trouble else checked_values(samples, sample, request.checked)
                )
            if not number & 63 and stop.is_set():
                raise InterruptedError("given up")
            if len(joins.values) >= AT_ONCE:
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
            except TypeError:
                # A name that is not UTF-8.
                self._look.noted = False
            self._notes = NotedSamples(self._request.touched)
        self._look.samples += len(self._joins.values)
        self._joins_file.write(orjson.dumps([*self._joins]) + b"\n")
        self._joins = JoinValues([], [], [])
