"""The values of scores while a sample is judged: known, unknown for good, or not computed yet."""

import enum
from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from wdsflow.expressions.score_call import Constant, ScoreCall

# A list has one entry for each image or text of a sample that has several; None is a value that could not be computed.
Value: TypeAlias = Constant | list[Constant | None] | None


class Unknown(NamedTuple):
    """A value that could not be computed, and why. It stays unknown."""

    slug: str
    detail: str = ""


class Pending(enum.Enum):
    """The state of a value that has not been computed yet."""

    PENDING = "pending"


PENDING: Final = Pending.PENDING


class Many(tuple[Constant | Unknown, ...]):
    """One entry for each image or text of a sample; never empty."""

    __slots__ = ()


Result: TypeAlias = Constant | Unknown | Pending | Many
Values: TypeAlias = Mapping[ScoreCall, Value | Unknown]
