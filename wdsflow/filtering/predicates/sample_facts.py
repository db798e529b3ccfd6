"""Scores that predicates may name without the catalog.

Caption, key, fields, values in json, and the rank among all samples.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

from wdsflow.expressions.score_call import ScoreCall
from wdsflow.memory.precision import Precision, used_precision
from wdsflow.shards.caption_field import look_up
from wdsflow.stages.scores.base import (
    MEMORY,
    Kind,
    QueryScore,
    Score,
    ScoreError,
    TextScore,
    Tier,
    Value,
)
from wdsflow.stages.scores.score_catalog import all_scores, make_score
from wdsflow.tables import Tables

if TYPE_CHECKING:
    from wdsflow.stages.scores.sample_view import View


@dataclass(frozen=True, kw_only=True)
class RankPercent(QueryScore):
    """Rank of a sample by a number, in percent of the samples that have one.

    The best of 200 has 0.5, the last has 100.

    ``of`` is the number: a score, or an expression such as ``width / height``.
    ``rank_percent(of="blur") <= 30`` keeps 30 % of the samples in which blur has a value, rounded
    down. ``end="bottom"`` begins with the smallest number. Of equal numbers, the smaller key comes
    first (by its bytes), then the earlier sample. Of several values in a sample the worst counts. A
    sample without a value has no rank. ``among="all"``: all samples of the shards are ranked, even
    those that other terms drop, as in DataComp's baselines. ``among="kept"``: only samples that all
    other terms keep are ranked, and ``of`` is computed only for these. ``ties="equal"``: equal
    numbers have the same rank, in percent the samples that have a better number, 0 for the best.
    ``<= 30`` then keeps one sample more than 30 %, and all that equal the last: what DataComp's
    baselines keep.
    """

    name: ClassVar[str] = "rank_percent"
    tier: ClassVar[Tier] = "header"
    small_is_good: ClassVar[bool] = True
    unit: ClassVar[str] = "%"
    low: ClassVar[float | None] = 0
    high: ClassVar[float | None] = 100
    argument: ClassVar[str] = "of"

    of: str
    end: Literal["top", "bottom"] = "top"
    ties: Literal["by-key", "equal"] = "by-key"

    def gather(self, view: "View") -> bytes:
        """Raise TypeError: numbers are ranked that are computed already."""
        raise TypeError(f"{self.name} compares values of other scores: it reads no sample")

    def column(self, tables: Tables, *, memory: int = MEMORY) -> Iterator[tuple[int, int, Value]]:
        """Yield the rank of each sample, in order."""
        direction = "DESC" if self.end == "top" else "ASC"
        # -0.0 is not smaller than 0.0.
        number = f"(CASE WHEN number = 0 THEN 0 ELSE number END) {direction}"
        rank = f"row_number() OVER (ORDER BY {number}, key, shard, sample)"
        if self.ties == "equal":
            rank = f"rank() OVER (ORDER BY {number}) - 1"
        tables.run(f"CREATE TABLE ranks AS SELECT shard, sample, {rank} AS rank FROM compared")
        count: int = tables.one("SELECT count(*) FROM ranks")[0]
        return tables.rows(
            "SELECT shard, sample, 100 * rank::DOUBLE / ? FROM ranks ORDER BY shard, sample", count
        )


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
    """Whether a sample has a field of this name, as in ``has("json")``.

    Upper and lower case are the same.
    """

    name: ClassVar[str] = "has"
    tier: ClassVar[Tier] = "header"
    kind: ClassVar[Kind] = "boolean"
    # The setting that needs no name.
    argument: ClassVar[str] = "field"

    field: str

    def score(self, view: "View") -> bool:
        """Return whether the sample has the field."""
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
            raise ValueError(
                f"{self.name}: name a value of the json, as in {self.name}('similarity')"
            )

    def value_of(self, view: "View") -> object:
        """Return the value in the json. Raises ScoreError "no-value"; null is not a value."""
        value = look_up(view.json(self.field.lower()), self.path)
        if value is None:
            raise ScoreError("no-value", f"field {self.field!r} has no {self.path!r}, or null")
        return value


@dataclass(frozen=True, kw_only=True)
class JsonNumber(InJson):
    """A number in the sample's json, as in ``json_number("similarity")``.

    ``meta.similarity`` names a nested number.

    True, false and texts of digits are not numbers, but unknown ("not-a-number"); so are missing
    values ("no-json", "no-value"). ``field`` names another field than json.
    """

    name: ClassVar[str] = "json_number"
    kind: ClassVar[Kind] = "number"

    def score(self, view: "View") -> float:
        """Return the number."""
        value = self.value_of(view)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ScoreError("not-a-number", f"{self.path!r} is {type(value).__name__}")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise ScoreError("not-finite", f"{self.path!r} is too large, or not a number")
        return number


@dataclass(frozen=True, kw_only=True)
class JsonTextFact(InJson):
    """A text in the sample's json, ``json_text("license")``; ``meta.license`` for a nested one.

    Other types are unknown ("not-text"), and so are missing values ("no-json", "no-value").
    ``field`` names another field than json.
    """

    name: ClassVar[str] = "json_text"
    kind: ClassVar[Kind] = "text"

    def score(self, view: "View") -> str:
        """Return the text."""
        value = self.value_of(view)
        if not isinstance(value, str):
            raise ScoreError("not-text", f"{self.path!r} is {type(value).__name__}")
        return value


# A score of the catalog with the same name takes precedence.
FACTS: dict[str, type[Score]] = {
    fact.name: fact for fact in (Caption, Key, Has, JsonNumber, JsonTextFact, RankPercent)
}


def score_of(call: ScoreCall, precision: Precision) -> Score:
    """Return the score that a call names.

    ``precision`` is that of its model, unless the call sets one.
    """
    if call.name not in all_scores():
        return FACTS[call.name](**dict(call.settings))
    score = make_score(call.name, **dict(call.settings))
    if getattr(score, "precision", "") != "auto":
        return score
    return replace(score, precision=used_precision(precision))  # type: ignore[call-arg]
