"""The values of a predicate, unknown values, and the scores that provide them."""

import enum
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

Kind = Literal["number", "boolean", "text"]
Scalar: TypeAlias = bool | int | float | str
# A list has one entry for each image or text of a sample that has several; None is a value that could not be computed.
Setting: TypeAlias = Scalar | tuple[Scalar, ...]
Value: TypeAlias = Scalar | list[Scalar | None] | None


class Unknown(NamedTuple):
    """A value that could not be computed, and why. It stays unknown."""

    slug: str
    detail: str = ""


class Pending(enum.Enum):
    """The state of a value that has not been computed yet."""

    PENDING = "pending"


PENDING: Final = Pending.PENDING


class Many(tuple[Scalar | Unknown, ...]):
    """One entry for each image or text of a sample; never empty."""

    __slots__ = ()


Result: TypeAlias = Scalar | Unknown | Pending | Many


class Call(NamedTuple):
    """A score with its settings, sorted by name."""

    name: str
    settings: tuple[tuple[str, Setting], ...] = ()

    def __str__(self) -> str:
        inner = ", ".join(f"{name}={spelled(value)}" for name, value in self.settings)
        return f"{self.name}({inner})" if inner else self.name


class ScoreType(Protocol):
    """The attributes of a score that the language needs; for a dataclass, also the names of its settings."""

    @property
    def name(self) -> str:
        """Its name in a predicate."""

    @property
    def kind(self) -> str:
        """The type of its values: number, boolean or text."""

    @property
    def tier(self) -> str:
        """Its cost: header, text, pixels or model."""


_ESCAPED = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}

Values: TypeAlias = Mapping[Call, Value | Unknown]


def spelled(value: Setting) -> str:
    """Return a constant in the syntax of a predicate."""
    if isinstance(value, tuple):
        return f"({', '.join(map(spelled, value))})"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + "".join(_ESCAPED.get(char, char) for char in value) + '"'
    return repr(value)
