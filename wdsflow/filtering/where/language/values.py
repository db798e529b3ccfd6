"""What a predicate computes with: values, what is not known of them, and what they are asked of."""

import enum
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

Kind = Literal["number", "boolean", "text"]
Scalar: TypeAlias = bool | int | float | str
# A list has one entry for each image or text of a sample that has several; None is a value that could not be computed.
Setting: TypeAlias = Scalar | tuple[Scalar, ...]
Value: TypeAlias = Scalar | list[Scalar | None] | None


class Unknown(NamedTuple):
    """A value that could not be computed, and why. It stays unknown: there is nothing left to wait for."""

    slug: str
    detail: str = ""


class Pending(enum.Enum):
    """The state of what has not been computed yet."""

    PENDING = "pending"


PENDING: Final = Pending.PENDING


class Many(tuple[Scalar | Unknown, ...]):
    """One entry for each image or text of a sample; never empty."""

    __slots__ = ()


Result: TypeAlias = Scalar | Unknown | Pending | Many


class Call(NamedTuple):
    """A score with its settings, sorted by name: what is to be computed for a sample."""

    name: str
    settings: tuple[tuple[str, Setting], ...] = ()

    def __str__(self) -> str:
        inner = ", ".join(f"{name}={spelled(value)}" for name, value in self.settings)
        return f"{self.name}({inner})" if inner else self.name


class ScoreType(Protocol):
    """What the language needs to know of a score. A dataclass is also asked for the names of its settings."""

    @property
    def name(self) -> str:
        """What a predicate calls it."""

    @property
    def kind(self) -> str:
        """What its values are: number, boolean or text."""

    @property
    def tier(self) -> str:
        """What it costs: header, text, pixels or model."""


_ESCAPED = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}

Values: TypeAlias = Mapping[Call, Value | Unknown]


def spelled(value: Setting) -> str:
    """Return a constant as it is written in a predicate."""
    if isinstance(value, tuple):
        return f"({', '.join(map(spelled, value))})"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + "".join(_ESCAPED.get(char, char) for char in value) + '"'
    return repr(value)
