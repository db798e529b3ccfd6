"""The value of a score for a sample, or why it has none."""

import enum
from typing import Final, NamedTuple, TypeAlias

from wdsflow.expressions.score_call import Constant

# A list has one entry for each image or text of a sample that has several; None is a value that
# could not be computed.
Value: TypeAlias = Constant | list[Constant | None] | None


class Unknown(NamedTuple):
    """A value that could not be computed, and why. It stays unknown."""

    slug: str
    detail: str = ""


class NotComputed(enum.Enum):
    """The type of NOT_COMPUTED."""

    NOT_COMPUTED = "not computed"


# In place of a score that a sample did not need.
NOT_COMPUTED: Final = NotComputed.NOT_COMPUTED
