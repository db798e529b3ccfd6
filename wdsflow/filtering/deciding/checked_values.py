"""Checks values of custom scores: of one sample, and of scores that compare samples."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from wdsflow.filtering.kinds import kind_of
from wdsflow.filtering.ledger.arrow_columns import in_utf8
from wdsflow.filtering.ledger.ledger_row import LedgerError, Row
from wdsflow.filtering.recipe.recipe import Recipe
from wdsflow.filtering.where.language.values import Call, Unknown
from wdsflow.memory.batching.attempt import describe
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

from .failures import MOST, RAISED, BrokenRunError, BrokenScoreError, guarded, is_fault

_COUNTED: dict[Subject, tuple[Subject, ...]] = {
    "image": ("image", "video"),  # frames replace a missing image
    "video": ("video",),
    "caption": ("caption",),
    "sample": ("image", "video", "caption"),
}


def plain_value(score: Score, value: Any, view: View | None) -> Value:
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


def in_plain(score: Score, way: Callable[[Any], Any]) -> Callable[[Any], Value]:
    """Return ``way``, which computes a score, with plain values; wdsflow's own scores have them, except for texts."""
    if is_ours(score):
        return way if score.kind != "text" else lambda view: _plain_text(way(view))
    return lambda view: plain_value(score, way(view), view)


def is_ours(score: Score) -> bool:
    """Return whether a score is wdsflow's own: its values need no check."""
    return SCORES.get(score.name, Score) is type(score) or type(score).__module__.startswith("wdsflow.")


def _plain_text(value: Any) -> Value:
    """Return a text as a ledger holds it: a cut by the ledger must see the same value as the first run."""
    return list(map(in_utf8, value)) if isinstance(value, list) else in_utf8(value)


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


def _scalar(score: Score, value: Any, method: str) -> Scalar:
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


def as_json(call: Call, score: DatasetScore, found: Iterable[Any]) -> Iterator[tuple[int, int, Any]]:
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


def from_json(score: DatasetScore, value: Any, row: Row, name: str, recipe: Recipe) -> Any:
    """Return a value of ``as_json``, or Unknown: also if a list does not have one value for each image of the sample."""
    if isinstance(value, dict):
        return Unknown(**value)
    if not isinstance(value, list) or not kind_of(name).by_fields:
        return value
    view = View(dict.fromkeys(row.fields, b""), ViewOptions(images=recipe.images, captions=recipe.captions))
    return guarded(partial(plain_value, score, value), view)
