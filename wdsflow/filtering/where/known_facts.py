"""Names that a predicate may use in addition to scores: key, caption, fields, and values of the json."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from wdsflow.shards.caption_field import look_up
from wdsflow.stages.scores.base import Kind, Score, ScoreError, TextScore, Tier

from .rank_percent import RankPercent

if TYPE_CHECKING:
    from wdsflow.stages.scores.sample_view import View


@dataclass(frozen=True, kw_only=True)
class Caption(TextScore):
    """The caption itself; a sample may have several."""

    name: ClassVar[str] = "caption"
    kind: ClassVar[Kind] = "text"

    def of(self, text: str) -> str:
        """Return the caption."""
        return text


@dataclass(frozen=True, kw_only=True)
class Key(Score):
    """The key of a sample: the name that its members share."""

    name: ClassVar[str] = "key"
    tier: ClassVar[Tier] = "header"
    kind: ClassVar[Kind] = "text"

    def score(self, view: "View") -> str:
        """Return the key."""
        return view.key


@dataclass(frozen=True, kw_only=True)
class Has(Score):
    """Whether a sample has a field of this name, ``has("json")``; upper and lower case are the same."""

    name: ClassVar[str] = "has"
    tier: ClassVar[Tier] = "header"
    kind: ClassVar[Kind] = "boolean"
    argument: ClassVar[str] = "field"  # the setting that may be given without its name

    field: str

    def score(self, view: "View") -> bool:
        """Return whether the field is there."""
        return self.field.lower() in view.fields


@dataclass(frozen=True, kw_only=True)
class InJson(Score):
    """A value in a sample's json."""

    tier: ClassVar[Tier] = "text"
    argument: ClassVar[str] = "path"

    path: str
    field: str = "json"

    def __post_init__(self) -> None:
        """Refuse an empty path."""
        super().__post_init__()
        if not self.path.strip() or not self.field.strip():
            raise ValueError(f"{self.name}: name a value of the json, as in {self.name}('similarity')")

    def found(self, view: "View") -> Any:
        """Return the value in the json. Raises ScoreError "no-value"; null is not a value."""
        value = look_up(view.json(self.field.lower()), self.path)
        if value is None:
            raise ScoreError("no-value", f"field {self.field!r} has no {self.path!r}, or null")
        return value


@dataclass(frozen=True, kw_only=True)
class JsonNumber(InJson):
    """A number in the sample's json, ``json_number("similarity")``; ``meta.similarity`` for a nested one.

    True, false and texts of digits are not numbers, but unknown ("not-a-number"); so are missing values ("no-json",
    "no-value"). ``field`` names another field than json.
    """

    name: ClassVar[str] = "json_number"
    kind: ClassVar[Kind] = "number"

    def score(self, view: "View") -> float:
        """Return the number."""
        value = self.found(view)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ScoreError("not-a-number", f"{self.path!r} is {type(value).__name__}")
        try:
            return float(value)
        except OverflowError:
            raise ScoreError("not-a-number", f"{self.path!r} is too large") from None


@dataclass(frozen=True, kw_only=True)
class JsonTextFact(InJson):
    """A text in the sample's json, ``json_text("license")``; ``meta.license`` for a nested one.

    Other types are unknown ("not-text"), and so are missing values ("no-json", "no-value"). ``field`` names another
    field than json.
    """

    name: ClassVar[str] = "json_text"
    kind: ClassVar[Kind] = "text"

    def score(self, view: "View") -> str:
        """Return the text."""
        value = self.found(view)
        if not isinstance(value, str):
            raise ScoreError("not-text", f"{self.path!r} is {type(value).__name__}")
        return value


# Known without being in the catalog; a score of the same name takes precedence.
FACTS: dict[str, type[Score]] = {fact.name: fact for fact in (Caption, Key, Has, JsonNumber, JsonTextFact, RankPercent)}
