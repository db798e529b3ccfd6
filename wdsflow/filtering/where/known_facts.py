"""What a predicate may ask of every sample beside scores: its key, its caption, its fields, what its json says."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from wdsflow.shards.caption_field import look_up
from wdsflow.stages.scores.base import Kind, Score, TextScore, Tier
from wdsflow.stages.scores.score_errors import ScoreError

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
    argument: ClassVar[str] = "field"  # the setting that a predicate may give without its name

    field: str

    def score(self, view: "View") -> bool:
        """Return whether the field is there."""
        return self.field.lower() in view.fields


@dataclass(frozen=True, kw_only=True)
class _InJson(Score):
    tier: ClassVar[Tier] = "text"
    argument: ClassVar[str] = "path"

    path: str
    field: str = "json"

    def __post_init__(self) -> None:
        """Refuse a path that names nothing."""
        super().__post_init__()
        if not self.path.strip() or not self.field.strip():
            raise ValueError(f"{self.name}: name a value of the json, as in {self.name}('similarity')")

    def found(self, view: "View") -> Any:
        """Return what the json holds. Raises ScoreError "no-value"; null is no value."""
        value = look_up(view.json(self.field.lower()), self.path)
        if value is None:
            raise ScoreError("no-value", f"field {self.field!r} has no {self.path!r}, or null")
        return value


@dataclass(frozen=True, kw_only=True)
class JsonNumber(_InJson):
    """A number that the sample's json holds, ``json_number("similarity")``; ``meta.similarity`` for a nested one.

    True and false are no numbers, nor are texts of digits; these are unknown ("not-a-number"), as is what is not there
    ("no-json", "no-value"). ``field`` names another field than json.
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
class JsonTextFact(_InJson):
    """A text that the sample's json holds, ``json_text("license")``; ``meta.license`` for a nested one.

    Anything else is unknown ("not-text"), as is what is not there ("no-json", "no-value"). ``field`` names another
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


# Known without being in the catalog; a score of the same name goes before.
FACTS: dict[str, type[Score]] = {fact.name: fact for fact in (Caption, Key, Has, JsonNumber, JsonTextFact)}
