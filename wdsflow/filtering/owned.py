"""What a score has to be and to return. One of the user's own may return what its libraries have, or anything."""

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from numbers import Real
from typing import Any

from wdsflow.filtering.columns import in_utf8
from wdsflow.stages.scores.base import DatasetScore, Scalar, Score, Value
from wdsflow.stages.scores.catalog import SCORES
from wdsflow.stages.scores.view import View
from wdsflow.text.install import install_extras

_SAID = {"number": "a number", "boolean": "True or False", "text": "a text"}


def plain_value(score: Score, value: Any) -> Value:
    """Return a value as float or int, bool, str, None or a list of these.

    Scalars and arrays of NumPy and PyTorch are taken, too. Raises TypeError for a value that is not of the score's
    kind, OverflowError for a number that no float can hold.
    """
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_scalar(score, each) for each in value]
    return _scalar(score, value)


def in_plain(score: Score, way: Callable[[Any], Any]) -> Callable[[Any], Value]:
    """Return ``way``, which computes a score, with plain values; ours have them anyway, but for texts."""
    if SCORES.get(score.name, Score) is type(score) or type(score).__module__.startswith("wdsflow."):
        return way if score.kind != "text" else lambda view: _plain_text(way(view))
    return lambda view: plain_value(score, way(view))


def _plain_text(value: Any) -> Value:
    """Return a text as a ledger holds it: a cut by the ledger has to see what the first run saw."""
    return list(map(in_utf8, value)) if isinstance(value, list) else in_utf8(value)


def gathered(score: DatasetScore, view: View) -> bytes:
    """Return what a sample is compared by. Raises TypeError where a score gives something else."""
    found: object = score.gather(view)
    if not isinstance(found, bytes):
        raise TypeError(f"gather returned a {type(found).__name__}: bytes are wanted")
    return found


def must_be_installed(score: Score) -> None:
    """Raise ValueError where a score needs what is not there: every sample would fail, one by one."""
    for name in score.packages if score.needs else ():
        try:
            version(name)
        except PackageNotFoundError:
            raise ValueError(f"{score.name} needs {name}: {install_extras(*score.needs)}") from None


def _scalar(score: Score, value: Any) -> Scalar:
    if hasattr(value, "tolist"):  # what is no scalar becomes a list, and is refused
        value = value.tolist()
    made: Scalar
    if value is None:
        return None
    if score.kind == "text" and isinstance(value, str):
        made = in_utf8(str(value))
    elif score.kind == "boolean" and isinstance(value, bool):
        made = value
    elif score.kind == "number" and isinstance(value, int):
        float(value)  # raises where a ledger could not hold it
        made = value
    elif score.kind == "number" and isinstance(value, Real):
        made = float(value)
    else:
        raise TypeError(f"it returned a {type(value).__name__}: {_SAID[score.kind]} is wanted, or a list of these")
    return made
