"""What a predicate may ask of every sample beside scores: its key, its caption, which fields it has."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from wdsflow.stages.scores.base import Kind, Score, TextScore, Tier

if TYPE_CHECKING:
    from wdsflow.stages.scores.view import View


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


# Known without being in the catalog; a score of the same name goes before.
FACTS: dict[str, type[Score]] = {fact.name: fact for fact in (Caption, Key, Has)}
