"""The value of a score for a sample, or why it has none."""

from typing import NamedTuple, TypeAlias

from wdsflow.expressions.score_call import Constant

# A list has one entry for each image or text of a sample that has several; None is a value that could not be computed.
Value: TypeAlias = Constant | list[Constant | None] | None


class Unknown(NamedTuple):
    """A value that could not be computed, and why. It stays unknown."""

    slug: str
    detail: str = ""
