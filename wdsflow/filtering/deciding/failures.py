"""Distinguishes faults of a sample, which cost its score, from faults of a score or of the machine."""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, TypeVar

from wdsflow.engines.base import EngineError
from wdsflow.filtering.folder.shard_record import ShardFailure, ShardRecord
from wdsflow.filtering.ledger.ledger_row import Row
from wdsflow.filtering.where.language.values import Call, Unknown
from wdsflow.memory.batching.attempt import OUT_OF_MEMORY, POISONED
from wdsflow.shards.atomic import UNREADABLE
from wdsflow.shards.source.base import SourceError
from wdsflow.stages.scores.base import ScoreError

V = TypeVar("V")

RAISED = Exception, SystemExit  # SystemExit: from libraries that behave like programs
_KEPT_IN_DETAIL = 500  # characters
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # address of an object in memory: it differs in each run


def guarded(compute: Callable[[V], Any], view: V) -> Any:
    """Return the result of ``compute``, or Unknown: a bad sample never ends its shard. Raises OSError."""
    try:
        return compute(view)
    except RAISED as error:
        return failed(error)


def failed(error: BaseException) -> Unknown:
    """Return why a score could not be computed. Raises the error if it is the fault of the shard or the disk."""
    if isinstance(error, ScoreError):
        return Unknown(error.slug, without_addresses(error.detail))
    if isinstance(error, MemoryError):
        return Unknown("out-of-memory")
    if isinstance(error, SourceError) or (isinstance(error, OSError) and error.errno in UNREADABLE):
        raise error
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - an exception whose text raises is still an exception
        text = ""
    return Unknown(f"raised-{type(error).__name__}", without_addresses(text))


def without_addresses(text: str) -> str:
    """Return the text of an error as it is kept: 500 characters, the same in each run."""
    return _ADDRESS.sub("", text)[:_KEPT_IN_DETAIL]


# A broken score, unlike bad samples, fails for each of the first hundred samples.
#
# A missing library or file of weights, or a bug in a custom score, would otherwise quarantine millions of samples one by
# one. Counted are exceptions, and models without memory for an item. A score that reports why it has no value for a
# sample (ScoreError) is neither broken nor proven by that.


MOST = 100  # samples


class BrokenScoreError(ValueError):
    """A score, ``blames``, fails for all samples."""

    def __init__(self, call: str, error: Unknown, key: str) -> None:
        about = f"{error.slug.removeprefix('raised-')}: {error.detail}" if error.detail else error.slug
        super().__init__(
            f"{call} failed for each of the first {MOST} samples. The fault is in the score, not in a sample,"
            f" and no sample was quarantined for it. At {key}: {about}"
        )
        self.blames = call


class BrokenRunError(EngineError):
    """A score fails for all samples so far: the run ends."""


class Strikes:
    """Checks the first samples of a shard for which each score is computed."""

    def __init__(self, calls: Iterable[Call]) -> None:
        self._open: dict[Call, set[int]] = {call: set() for call in calls}

    def __bool__(self) -> bool:
        return bool(self._open)

    def see(self, row: Row) -> None:
        """Count a sample, as far as it is computed; it may come again. Raises BrokenScoreError."""
        for call in [*self._open]:
            value = row.values.get(call)
            if isinstance(value, Unknown):
                if not is_fault(value):
                    continue
                self._open[call].add(row.number)
                if len(self._open[call]) >= MOST:
                    raise BrokenScoreError(str(call), value, row.key)
            elif call in row.values or call in row.gathered:
                del self._open[call]


def is_fault(error: Unknown) -> bool:
    """Return whether an error may be the fault of the score rather than of a sample."""
    return error.slug.startswith("raised-") or error.slug in {OUT_OF_MEMORY, POISONED}


def struck_in(rows: Sequence[Row], calls: Collection[Call]) -> dict[str, tuple[int, str, str]]:
    """Return which of some scores failed for all samples: how often, error and detail."""
    found: dict[Call, tuple[int, str, str]] = {}
    for row in rows:
        for call, value in row.values.items():
            if isinstance(value, Unknown) and is_fault(value) and call in calls:
                found[call] = found.get(call, (0,))[0] + 1, *value
    for row in rows if found else ():
        for call in [*found]:
            if call in row.gathered or (call in row.values and not isinstance(row.values[call], Unknown)):
                del found[call]
    return {str(call): item for call, item in found.items()}


class RunStrikes:
    """Checks the shards of a run, because single shards may be too small.

    Shards in which a score failed for all samples are held back until another shard proves the score. If the run ends
    because of the score, they count as not done, and the next run processes them again.
    """

    def __init__(self, done: Iterable[ShardRecord]) -> None:
        self._proven = any(record.samples for record in done)  # proven by an earlier run
        self._held: list[ShardRecord] = []

    def take(self, record: ShardRecord) -> list[ShardRecord]:
        """Return the shards that now count as done. Raises BrokenRunError."""
        if not record.struck or self._proven:
            self._proven = self._proven or bool(record.samples)
            return [*self.rest(), record]
        self._held.append(record)
        for call, (_, slug, detail) in record.struck.items():
            count = sum(held.struck[call][0] for held in self._held if call in held.struck)
            if count >= MOST and all(call in held.struck for held in self._held):
                raise BrokenRunError(str(BrokenScoreError(call, Unknown(slug, detail), record.url)))
        return []

    def failed(self, failure: ShardFailure, blames: str) -> None:
        """Take a shard that failed because of a score. Raises BrokenRunError unless another shard has proven the score."""
        if blames and not self._proven:
            raise BrokenRunError(f"{failure.url}: {failure.reason}")

    def rest(self) -> list[ShardRecord]:
        """Return the shards that are still held back: they count now."""
        held, self._held = self._held, []
        return held
