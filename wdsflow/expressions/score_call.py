"""A score with its settings, as an expression names it: ``near_duplicate(distance=4)``."""

from typing import Literal, NamedTuple, Protocol, TypeAlias

Kind: TypeAlias = Literal["number", "boolean", "text"]
Constant: TypeAlias = bool | int | float | str
Setting: TypeAlias = Constant | tuple[Constant, ...]

_ESCAPED = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}


class ScoreCall(NamedTuple):
    """A score and its settings, sorted by name.

    ``str()`` is its canonical form, and the name of its column.
    """

    name: str
    settings: tuple[tuple[str, Setting], ...] = ()

    def __str__(self) -> str:
        if not self.settings:
            return self.name
        settings = ", ".join(f"{name}={spelled(value)}" for name, value in self.settings)
        return f"{self.name}({settings})"


class ScoreType(Protocol):
    """What an expression needs to know of a score: mostly the attributes of a class.

    A dataclass also declares the names and types of its settings by its fields. Optional
    attributes: ``argument``, the setting that may be given without its name; ``low`` and ``high``,
    bounds of its numbers; ``compares``, only if the score compares samples with each other.
    """

    @property
    def kind(self) -> str:
        """The type of its values: number, boolean or text."""

    @property
    def tier(self) -> str:
        """Its cost: header, text, pixels or model."""


class ScoreFacts(NamedTuple):
    """What an expression keeps of a score.

    It can be sent to processes that do not know the score.
    """

    tier: str
    low: float | None
    high: float | None
    compares_samples: bool


def facts_of(score: ScoreType) -> ScoreFacts:
    """Return what an expression keeps of a score."""
    return ScoreFacts(
        score.tier,
        getattr(score, "low", None),
        getattr(score, "high", None),
        hasattr(score, "compares"),
    )


def spelled(value: Setting) -> str:
    r"""Return a constant as Python spells it, with double quotes: a shell needs the single ones.

    >>> print(spelled((True, 0.5, 'a "b"')))
    (True, 0.5, "a \"b\"")
    """
    if isinstance(value, tuple):
        inner = ", ".join(map(spelled, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, str):
        return '"' + "".join(_ESCAPED.get(char, char) for char in value) + '"'
    return repr(value)
