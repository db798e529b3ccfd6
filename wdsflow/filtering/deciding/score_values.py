"""The value of a score for a sample: plain Python values, or the reason why there is none."""

import re
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from wdsflow.filtering.predicates.values import Unknown, Value
from wdsflow.memory.batching.exceptions import text_of
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
    single_or_list,
)
from wdsflow.stages.scores.model.batch_score import BatchScore
from wdsflow.stages.scores.model.model_score import ModelScore
from wdsflow.stages.scores.model.returned_values import described, rows_of, scalar
from wdsflow.stages.scores.sample_view import View
from wdsflow.stages.scores.score_catalog import SCORES
from wdsflow.text.utf8 import in_utf8

V = TypeVar("V")
R = TypeVar("R")
W = TypeVar("W", bound=View)
P = TypeVar("P", Scalar, Scalar | None)

# SystemExit: from libraries that behave like programs.
RAISED = Exception, SystemExit
# Characters of a detail.
_LONGEST_DETAIL = 500
# Address of an object in memory: it differs in each run.
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
# The items of which a score may have one value each.
_COUNTED: dict[Subject, tuple[Subject, ...]] = {
    # Frames replace a missing image.
    "image": ("image", "video"),
    "video": ("video",),
    "caption": ("caption",),
    "sample": ("image", "video", "caption"),
}


def result_or_unknown(compute: Callable[[V], R], view: V) -> R | Unknown:
    """Return the result of ``compute``, or Unknown if it fails.

    A bad sample must not fail its shard. Raises OSError.
    """
    try:
        return compute(view)
    except RAISED as error:
        return failure_of(error)


def failure_of(error: BaseException) -> Unknown:
    """Return why a score could not be computed.

    Raises the error if it is the fault of the shard or the disk.
    """
    if isinstance(error, ScoreError):
        return Unknown(error.slug, without_addresses(error.detail))
    if isinstance(error, MemoryError):
        return Unknown("out-of-memory")
    if isinstance(error, SourceError):
        raise error
    if isinstance(error, OSError) and error.errno in UNREADABLE:
        raise error
    return Unknown(f"raised-{type(error).__name__}", without_addresses(text_of(error, sys.maxsize)))


def without_addresses(text: str) -> str:
    """Return the text of an error as it is stored: 500 characters, the same in each run."""
    return _ADDRESS.sub("", text)[:_LONGEST_DETAIL]


def plain_method(score: Score, method: Callable[[W], Value]) -> Callable[[W], Value]:
    """Return ``method``, which computes a score, such that its values are plain.

    See ``plain_value``.
    """
    if not is_builtin(score):
        return lambda view: plain_value(score, method(view), view)
    if score.kind != "text":
        return method

    # A run from the ledger must use the same value as the first run.
    def encodable(view: W) -> Value:
        value = method(view)
        if isinstance(value, list):
            return [_encodable(item) for item in value]
        return _encodable(value)

    return encodable


def plain_value(score: Score, value: object, view: View | None) -> Value:
    """Return the value of a score for a sample as float, int, bool, str or a list of these.

    A list has one value for each item.

    Scalars and arrays of NumPy and PyTorch are accepted. Items are the images, videos or captions
    of ``view`` that the score uses. For wdsflow's scores, and without a view, a list may have any
    length. Raises TypeError for anything else, ScoreError "not-finite" for NaN and infinities,
    OverflowError for a number that no float can hold.
    """
    method = _method_name(score)
    rows = rows_of(value)
    if rows is None:
        return _plain_scalar(score, value, method)
    counts = set[int]()
    if view is not None and not is_builtin(score):
        counts = _possible_counts(score, view)
    if counts and len(rows) not in counts:
        expected = " or ".join(map(str, sorted(counts)))
        raise TypeError(f"{method} returned {described(value)}: the sample needs {expected}")
    return single_or_list([_plain_scalar(score, row, method) for row in rows])


def is_builtin(score: Score) -> bool:
    """Return whether a score is a part of wdsflow: its values need no check."""
    if SCORES.get(score.name, Score) is type(score):
        return True
    return type(score).__module__.startswith("wdsflow.")


def _encodable(value: P) -> P:
    return in_utf8(value) if isinstance(value, str) else value


def _plain_scalar(score: Score, value: object, method: str) -> Scalar:
    return _encodable(scalar(value, score.kind, method))


def _method_name(score: Score) -> str:
    """Return the name of the method that computes a custom score."""
    if isinstance(score, DatasetScore):
        return "resolve()"
    if isinstance(score, BatchScore):
        return "score()"
    if isinstance(score, ModelScore):
        return "value()"
    for base in (HeaderScore, PixelScore, TextScore):
        if isinstance(score, base):
            return "of()" if type(score).score is base.score else "score()"
    return "score()"


def _possible_counts(score: Score, view: View) -> set[int]:
    """Return the possible numbers of values of a score for a sample; empty if unknown."""
    items_of = {"image": view.image_names, "video": view.video_names, "caption": view.captions}
    counts = set[int]()
    for subject in _COUNTED[score.subject]:
        with suppress(ScoreError):
            counts.add(len(items_of[subject](getattr(score, subject, ""))))
    return counts
