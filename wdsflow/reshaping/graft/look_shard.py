"""The first pass over a shard.

Writes to files where its samples are, and what they are joined on.
"""

from array import array
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, BinaryIO

from wdsflow.joining.join_on import JoinOn
from wdsflow.shards.samples.tar_damage import is_harmless
from wdsflow.shards.samples.tar_samples import Samples, TarSample
from wdsflow.shards.shard import Shard
from wdsflow.shards.shard_identity import input_identity
from wdsflow.shards.source.base import Range, Source, SourceChangedError, SourceError
from wdsflow.shards.source.opening import seekable

from .join_values import JOINS, JoinValues, checked_values, join_value
from .sample_notes import AT_ONCE, NOTES, NotedSamples

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Ending of the file of a shard: hashes of its keys, 8 bytes each.
KEYS = ".keys"
# Samples after which a request to stop is noticed.
_STOP_INTERVAL = 64


@dataclass(frozen=True)
class LookRequest:
    """The data to look for.

    Attributes:
        touched: the fields that will be set.
        checked: the columns of ``CHECKED`` that the table has, or ``CHECKED_IMAGE``.
        digits: hexadecimal digits of the table's hashes.
    """

    on: JoinOn
    touched: tuple[str, ...] = ()
    checked: tuple[str, ...] = ()
    digits: int = 32


@dataclass(frozen=True)
class LookJob:
    """One shard to read in the first pass.

    ``files``: the path of its files, without extension. ``scope`` precedes its keys in the table.
    """

    url: Shard
    files: Path
    scope: str = ""
    allow_pipe: bool = False

    def open_shard(self) -> AbstractContextManager[tuple[Source, str]]:
        """Open the shard for a block, as ``seekable`` does. Raises SourceError, OSError."""
        return seekable(self.url, self.files.parent, allow_pipe=self.allow_pipe, here=False)

    def identity(self) -> dict[str, object]:
        """Return an identity that changes with the shard. Raises SourceError."""
        return input_identity(self.url)

    def read_numbers(self, ending: str) -> "NDArray[np.int64]":
        """Return the numbers in one of the shard's files.

        np.load is not used: it may fail in concurrent threads (gh-106905).
        """
        import numpy as np

        return np.fromfile(self.files.with_suffix(ending), np.int64)

    def count_uncounted(self, written: "NDArray[np.bool_]") -> int:
        """Return how many written samples ``validate`` does not count.

        Their key is a duplicate.
        """
        import numpy as np

        keys = self.read_numbers(KEYS)[written]
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
    is_unread: bool = False
    # Whether there are notes on all samples.
    has_notes: bool = False
    headers: list[Range] = field(default_factory=list)
    # A global header changes names or sizes.
    has_renaming_header: bool = False


def look_at(job: LookJob, stop: Event, *, request: LookRequest) -> ShardLook:
    """Look at a shard. Raises OSError if the notes cannot be written."""
    try:
        # Its bytes may differ the next time.
        look = ShardLook(job.url, job.identity(), has_notes=not job.url.is_pipe)
        with (
            job.open_shard() as (source, damage),
            open(job.files.with_suffix(NOTES), "wb") as notes,
            open(job.files.with_suffix(JOINS), "wb") as joins,
        ):
            walk = _Look(look, job, request, notes, joins)
            walk.run(source, stop)
        if damage:
            look.lost.append(damage)
        if job.identity() != look.inputs:
            raise SourceChangedError
    except SourceError as error:
        return ShardLook(job.url, lost=[str(error)], is_unread=True)
    job.files.with_suffix(KEYS).write_bytes(walk.keys.tobytes())
    return look


class _Look:
    """The walk through a shard."""

    def __init__(
        self, look: ShardLook, job: LookJob, request: LookRequest, notes: BinaryIO, joins: BinaryIO
    ) -> None:
        self._look = look
        self._scope = job.scope
        self._request = request
        self._notes_file = notes
        self._joins_file = joins
        # Of samples that are not written yet.
        self._notes = NotedSamples(request.touched)
        self._joins = JoinValues([], [], [])
        self._troubles = Counter[str]()
        self.keys = array("Q")

    def run(self, source: Source, stop: Event) -> None:
        request = self._request
        look = self._look
        reads_json = request.on.kind == "json" or bool(request.checked)
        samples = Samples(source, contents=False, keep=reads_json)
        value_of = join_value(samples, request.on, self._scope, request.digits)
        for number, sample in enumerate(samples):
            if look.has_notes:
                self._notes.add(sample)
            self._add(samples, sample, value_of)
            if number % _STOP_INTERVAL == 0 and stop.is_set():
                raise InterruptedError("given up")
            if len(self._joins.values) >= AT_ONCE:
                self._write()
        self._write()
        look.left_out = dict(samples.left_out)
        look.troubles = dict(self._troubles)
        look.headers = samples.headers
        look.has_renaming_header = samples.global_records
        look.lost += [damage for damage in samples.damage if not is_harmless(damage)]

    def _add(
        self, samples: Samples, sample: TarSample, value_of: Callable[[TarSample], str | None]
    ) -> None:
        """Add the join values of a sample; one next to damage has none."""
        from xxhash import xxh3_64_intdigest

        joins = self._joins
        checked = self._request.checked
        self.keys.append(xxh3_64_intdigest(sample.key.encode("utf-8", "surrogateescape")))
        if sample.trouble:
            joins.damaged.append(len(joins.values))
            self._troubles[sample.trouble] += 1
            joins.values.append(None)
            if checked:
                joins.checked.append([])
            return
        joins.values.append(value_of(sample))
        if checked:
            joins.checked.append(checked_values(samples, sample, checked))

    def _write(self) -> None:
        import orjson

        if self._look.has_notes:
            try:
                self._notes_file.write(orjson.dumps(vars(self._notes)) + b"\n")
            except TypeError:
                # A name that is not UTF-8.
                self._look.has_notes = False
            self._notes = NotedSamples(self._request.touched)
        self._look.samples += len(self._joins.values)
        self._joins_file.write(orjson.dumps([*self._joins]) + b"\n")
        self._joins = JoinValues([], [], [])
