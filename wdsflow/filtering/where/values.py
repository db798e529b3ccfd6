"""The values of a predicate, the scores that provide them, and the functions over them."""

import enum
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
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


_PATTERN_MEMORY = 8 << 20  # bytes of automaton that one pattern may take; beyond, RE2 gets slower, not larger


class Function(NamedTuple):
    """``takes`` are the types of the arguments; all after the first are constants."""

    takes: tuple[Kind, ...]
    kind: Kind
    run: Callable[..., Scalar]
    about: str


class PatternError(ValueError):
    """A regular expression that RE2 does not accept."""


@lru_cache(maxsize=256)
def compiled(pattern: str) -> "re.Pattern[bytes]":
    """Return RE2's program for a pattern. Raises PatternError.

    RE2 runs in time linear in the text, for any pattern. Python's `re` does not: `(a+)+b` on a caption of forty
    a's would stop a run. The price: RE2 has no back-references and no look-around.
    """
    import re2  # type: ignore[import-untyped]

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _PATTERN_MEMORY
    try:
        program: re.Pattern[bytes] = re2.compile(pattern.encode("utf-8", "surrogatepass"), options)
    except re2.error as error:
        said = error.args[0] if error.args else "not a regular expression"
        raise PatternError(said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)) from None
    return program


def _matches(text: str, pattern: str) -> bool:
    # As bytes: a caption may hold invalid UTF-8, which re2 would refuse to encode.
    return compiled(pattern).search(text.encode("utf-8", "surrogatepass")) is not None


FUNCTIONS: dict[str, Function] = {
    "lower": Function(("text",), "text", str.lower, "the text in lower case"),
    "upper": Function(("text",), "text", str.upper, "the text in upper case"),
    "strip": Function(("text",), "text", str.strip, "the text without white space at its ends"),
    "contains": Function(("text", "text"), "boolean", str.__contains__, "whether a text contains another"),
    "startswith": Function(("text", "text"), "boolean", str.startswith, "whether a text starts with another"),
    "endswith": Function(("text", "text"), "boolean", str.endswith, "whether a text ends with another"),
    "matches": Function(
        ("text", "text"), "boolean", _matches, "whether a regular expression (RE2) matches anywhere in a text"
    ),
    "length": Function(("text",), "number", len, "characters (code points) of a text"),
    "words": Function(("text",), "number", lambda text: len(text.split()), "words of a text, separated by white space"),
    "abs": Function(("number",), "number", abs, "a number without its sign"),
}
OVER_ENTRIES = ("any", "all", "mean", "min", "max")
