"""What a custom score has to return: one number, truth value or text for each image, video or caption of a sample."""

from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from wdsflow.filtering.ledger.arrow_columns import in_utf8
from wdsflow.stages.scores.base import (
    DatasetScore,
    HeaderScore,
    PixelScore,
    Scalar,
    Score,
    Subject,
    TextScore,
    Value,
    bare,
)
from wdsflow.stages.scores.model.batch_score import BatchScore
from wdsflow.stages.scores.model.model_score import ModelScore
from wdsflow.stages.scores.model.returned import described, rows_of, scalar
from wdsflow.stages.scores.sample_view import View
from wdsflow.stages.scores.score_catalog import SCORES
from wdsflow.stages.scores.score_errors import ScoreError
from wdsflow.text.install import install_extras

_COUNTED: dict[Subject, tuple[Subject, ...]] = {
    "image": ("image", "video"),  # frames stand for an image where there is none
    "video": ("video",),
    "caption": ("caption",),
    "sample": ("image", "video", "caption"),
}


def plain_value(score: Score, value: Any, view: View | None) -> Value:
    """Return what a score said of a sample as float or int, bool or str, or as a list of these with one for each item.

    Scalars and arrays of NumPy and PyTorch are accepted. Items are the images, videos or captions of ``view`` that the
    score is about; of our own scores, and without a view, a list may have any length. Raises TypeError for anything else,
    ScoreError "not-finite" for NaN and infinities, OverflowError for a number that no float can hold.
    """
    method, rows = _method_of(score), rows_of(value)
    if rows is None:
        return _scalar(score, value, method)
    counts = set[int]() if view is None or is_ours(score) else _counts(score, view)
    if counts and len(rows) not in counts:
        raise TypeError(
            f"{method} returned {described(value)}: the sample takes {' or '.join(map(str, sorted(counts)))}"
        )
    return bare([_scalar(score, row, method) for row in rows])


def in_plain(score: Score, way: Callable[[Any], Any]) -> Callable[[Any], Value]:
    """Return ``way``, which computes a score, with plain values; ours have them anyway, but for texts."""
    if is_ours(score):
        return way if score.kind != "text" else lambda view: _plain_text(way(view))
    return lambda view: plain_value(score, way(view), view)


def is_ours(score: Score) -> bool:
    """Return whether a score comes with this package: its values need no check."""
    return SCORES.get(score.name, Score) is type(score) or type(score).__module__.startswith("wdsflow.")


def _plain_text(value: Any) -> Value:
    """Return a text as a ledger holds it: a cut by the ledger has to see what the first run saw."""
    return list(map(in_utf8, value)) if isinstance(value, list) else in_utf8(value)


def gathered(score: DatasetScore, view: View) -> bytes:
    """Return what a sample is compared by. Raises TypeError if a score gives something else."""
    found: object = score.gather(view)
    if not isinstance(found, bytes):
        raise TypeError(f"gather() returned {described(found)}: bytes are wanted")
    return found


def must_be_installed(score: Score) -> None:
    """Raise ValueError if a score needs what is not there: every sample would fail, one by one."""
    for name in score.packages if score.needs else ():
        try:
            version(name)
        except PackageNotFoundError:
            raise ValueError(f"{score.name} needs {name}: {install_extras(*score.needs)}") from None


def _scalar(score: Score, value: Any, method: str) -> Scalar:
    made = scalar(value, score.kind, method)
    return in_utf8(made) if isinstance(made, str) else made


def _method_of(score: Score) -> str:
    """Return what its author wrote to compute it."""
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
