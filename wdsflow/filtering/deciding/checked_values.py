"""Values of custom scores, checked; faults of a sample, which cost its score, and faults of a score or of the machine."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import TypeAlias, TypeVar

from wdsflow.engines.base import EngineError
from wdsflow.filtering.kinds import kind_of
from wdsflow.filtering.ledger.ledger import in_utf8
from wdsflow.filtering.ledger.ledger_row import LedgerError, Row
from wdsflow.filtering.recipe.recipe import Recipe
from wdsflow.filtering.run_folder import ShardFailure, ShardRecord
from wdsflow.filtering.where.values import Call, Unknown
from wdsflow.memory.batching.attempt import OUT_OF_MEMORY, POISONED, describe
from wdsflow.shards.atomic import UNREADABLE
from wdsflow.shards.source.base import SourceError
from wdsflow.stages.scores.base import (
    DatasetScore,
    HeaderScore,
    PixelScore,
    Scalar,
    Score,
    ScoreError,
    Subject,
    TextScore,
    Value,
    bare,
)
from wdsflow.stages.scores.model.model_score import BatchScore, ModelScore, described, rows_of, scalar
from wdsflow.stages.scores.sample_view import View, ViewOptions
from wdsflow.stages.scores.score_catalog import SCORES
from wdsflow.text.install import install_extras

V = TypeVar("V")
R = TypeVar("R")
W = TypeVar("W", bound=View)

RAISED = Exception, SystemExit  # SystemExit: from libraries that behave like programs
_KEPT_IN_DETAIL = 500  # characters
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # address of an object in memory: it differs in each run


def guarded(compute: Callable[[V], R], view: V) -> R | Unknown:
    """Return the result of ``compute``, or Unknown: a bad sample does not end its shard. Raises OSError."""
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


_COUNTED: dict[Subject, tuple[Subject, ...]] = {
    "image": ("image", "video"),  # frames replace a missing image
    "video": ("video",),
    "caption": ("caption",),
    "sample": ("image", "video", "caption"),
}


def plain_value(score: Score, value: object, view: View | None) -> Value:
    """Return the value of a score for a sample as float, int, bool or str, or as a list of these with one for each item.

    Scalars and arrays of NumPy and PyTorch are accepted. Items are the images, videos or captions of ``view`` that the
    score uses. For wdsflow's own scores, and without a view, a list may have any length. Raises TypeError for anything
    else, ScoreError "not-finite" for NaN and infinities, OverflowError for a number that no float can hold.
    """
    method, rows = _method_of(score), rows_of(value)
    if rows is None:
        return _scalar(score, value, method)
    counts = set[int]() if view is None or is_ours(score) else _counts(score, view)
    if counts and len(rows) not in counts:
        raise TypeError(
            f"{method} returned {described(value)}: the sample needs {' or '.join(map(str, sorted(counts)))}"
        )
    return bare([_scalar(score, row, method) for row in rows])


def in_plain(score: Score, way: Callable[[W], Value]) -> Callable[[W], Value]:
    """Return ``way``, which computes a score, with plain values; wdsflow's own scores have them, except for texts."""
    if is_ours(score):
        return way if score.kind != "text" else lambda view: _plain_text(way(view))
    return lambda view: plain_value(score, way(view), view)


def is_ours(score: Score) -> bool:
    """Return whether a score is wdsflow's own: its values need no check."""
    return SCORES.get(score.name, Score) is type(score) or type(score).__module__.startswith("wdsflow.")


def _plain_text(value: Value) -> Value:
    """Return a text as a ledger holds it: a cut by the ledger must see the same value as the first run."""
    if isinstance(value, list):
        return [in_utf8(each) if isinstance(each, str) else each for each in value]
    return in_utf8(value) if isinstance(value, str) else value


def gathered(score: DatasetScore, view: View) -> bytes:
    """Return the bytes by which a sample is compared. Raises TypeError if a score gives anything else."""
    found: object = score.gather(view)
    if not isinstance(found, bytes):
        raise TypeError(f"gather() returned {described(found)}: it must return bytes")
    return found


def must_be_installed(score: Score) -> None:
    """Raise ValueError if a score needs a missing library: every sample would fail, one by one."""
    for name in score.packages if score.needs else ():
        try:
            version(name)
        except PackageNotFoundError:
            raise ValueError(f"{score.name} needs {name}: {install_extras(*score.needs)}") from None


def _scalar(score: Score, value: object, method: str) -> Scalar:
    made = scalar(value, score.kind, method)
    return in_utf8(made) if isinstance(made, str) else made


def _method_of(score: Score) -> str:
    """Return the method that computes a custom score."""
    if isinstance(score, DatasetScore):
        return "resolve()"
    if isinstance(score, ModelScore):
        return "score()" if isinstance(score, BatchScore) else "value()"
    own = next((base for base in (HeaderScore, PixelScore, TextScore) if isinstance(score, base)), None)
    return "of()" if own is not None and type(score).score is own.score else "score()"


def _counts(score: Score, view: View) -> set[int]:
    """Return how many values a score may have for a sample; none if that cannot be told."""
    ways = {"image": view.image_names, "video": view.video_names, "caption": view.captions}
    found = set[int]()
    for subject in _COUNTED[score.subject]:
        with suppress(ScoreError):
            found.add(len(ways[subject](getattr(score, subject, ""))))
    return found


Stored: TypeAlias = Value | dict[str, str]  # a dict is an Unknown


def as_json(
    call: Call, score: DatasetScore, found: Iterable[tuple[int, int, Value]]
) -> Iterator[tuple[int, int, Stored]]:
    """Yield (shard, sample, value) from ``resolve``; a refused value becomes {"slug": ..., "detail": ...}.

    Raises BrokenRunError if ``resolve`` of a custom score fails, or the first 100 of its values are refused.
    """
    if is_ours(score):
        yield from found
        return
    refused: int | None = 0  # None as soon as one value is valid
    try:
        for shard, sample, value in found:
            plain = guarded(partial(plain_value, score, value), None)
            if not isinstance(plain, Unknown):
                refused = None
                yield shard, sample, plain
                continue
            refused = None if refused is None or not is_fault(plain) else refused + 1
            if refused == MOST:
                raise BrokenRunError(str(BrokenScoreError(str(call), plain, f"sample {sample} of shard {shard}")))
            yield shard, sample, {"slug": plain.slug, "detail": plain.detail}
    except (OSError, LedgerError, BrokenRunError):  # of the caller, who reads the records
        raise
    except RAISED as error:
        raise BrokenRunError(f"{call}: resolve() raised {describe(error)}") from error


def from_json(score: DatasetScore, value: Stored, row: Row, name: str, recipe: Recipe) -> Value | Unknown:
    """Return a value of ``as_json``, or Unknown: also if a list does not have one value for each image of the sample."""
    if isinstance(value, dict):
        return Unknown(**value)
    if not isinstance(value, list) or not kind_of(name).by_fields:
        return value
    view = View(dict.fromkeys(row.fields, b""), ViewOptions(images=recipe.images, captions=recipe.captions))
    return guarded(partial(plain_value, score, value), view)
