"""All values of one score in the ledgers of a run, and how many samples a threshold keeps."""

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wdsflow.expressions.errors import ExpressionError
from wdsflow.expressions.expression import Expression, Term
from wdsflow.expressions.score_call import Constant, ScoreCall, spelled
from wdsflow.expressions.tree import ScoreValue
from wdsflow.filtering.ledger.ledger import read_ledger
from wdsflow.filtering.ledger.ledger_metadata import (
    LedgerError,
    MissingScore,
    calls_of,
    no_ledgers,
    read_about,
    unreadable_predicate,
)
from wdsflow.filtering.ledger.sample_table import Row, SampleTable, part_twins
from wdsflow.filtering.predicates.catalog import parse, parse_score
from wdsflow.filtering.predicates.sample_facts import score_of
from wdsflow.filtering.predicates.values import NOT_COMPUTED, Unknown
from wdsflow.filtering.recipe.recipe import Recipe, canonical_recipe, recorded_recipe, recorded_run
from wdsflow.filtering.run_folder import Layout, ShardRecord, records_in_order
from wdsflow.stages.scores.score_catalog import all_scores
from wdsflow.text.words import number_text, roundest, roundest_after

from .decider import set_outcomes
from .plan import plan_of
from .row_values import missing_value, numbers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]
    Flags = NDArray[np.bool_]

# Distinct values of a text that are counted.
_MOST_TEXTS = 10_000


@dataclass
class ScoreColumn:
    """The values of a score in all ledgers of a run.

    Numbers take up to 24 bytes of memory per sample; shards in which a key occurs more than once
    take their keys as well. A threshold keeps the larger numbers, ``score > x``, or the smaller
    ones, ``score < x``. If a sample has several values, the smallest counts, or the largest: the
    comparison must hold for each.

    Attributes:
        call: the score.
        kind: "number", "boolean" or "text".
        small: whether a threshold keeps the smaller numbers.
        samples: all samples of the shards.
        unreadable: samples that could not be read, or that a stage dropped: no predicate keeps them.
        missing: samples for which the score was not computed.
        failed: samples for which it could not be computed, by error.
        several: samples with more than one value.
        where: a part of the run's predicate; without it, the score of some samples is missing. None if the
            ledgers do not determine the effect of a threshold.
        numbers: the values, sorted; only for numbers.
        eligible: the values, sorted, of the samples that ``where`` keeps.
        twins: keys and values of the shards in which a key occurs more than once.
        counts: how often each value occurs; only for truth values and texts, None if there are more than 10,000.
    """

    call: ScoreCall
    kind: str
    small: bool = False
    samples: int = 0
    unreadable: int = 0
    missing: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    several: int = 0
    where: str | None = ""
    numbers: "Numbers | None" = None
    counts: Counter[Constant] | None = field(default_factory=Counter)
    eligible: "Numbers | None" = None
    twins: list[tuple[list[str], "Numbers"]] = field(default_factory=list)

    @property
    def known(self) -> int:
        """The number of samples with a value."""
        return self.samples - self.unreadable - self.missing - self.failed.total()

    def kept(self, bound: float) -> int:
        """Return the number of samples that ``wdsflow filter --ledger`` keeps with ``predicate(bound)``."""
        import numpy as np

        assert self.eligible is not None
        if self.small:
            kept = int(np.searchsorted(self.eligible, bound, "left"))
            return kept - sum(_parted(keys, values < bound) for keys, values in self.twins)
        kept = len(self.eligible) - int(np.searchsorted(self.eligible, bound, "right"))
        return kept - sum(_parted(keys, values > bound) for keys, values in self.twins)

    @property
    def comparison(self) -> str:
        """The operator between the score and a threshold."""
        return "<" if self.small else ">"

    def predicate(self, bound: float) -> str:
        """Return the predicate that keeps the values on the good side of a number."""
        own = f"{self.call} {self.comparison} {number_text(bound)}"
        return str(parse(f"({self.where}) and {own}", all_scores())) if self.where else own

    def round_thresholds(self) -> list[float]:
        """Return round numbers near the deciles, without those that keep nothing."""
        nearest = roundest_after if self.small else roundest
        found = (
            nearest(low, high)
            for share in range(10, 100, 10)
            if (low := self.quantile((share - 5) / 100))
            < (high := self.quantile((share + 5) / 100))
        )
        return [each for each in dict.fromkeys(found) if math.isfinite(each) and self.kept(each)]

    def threshold_for(self, share: float) -> float | None:
        """Return the number of fewest digits that keeps about this share of all samples; None if none divides them."""
        values = self.eligible
        if values is None or not len(values) or values[0] == values[-1]:
            return None
        wanted, *ends = self._equals(share)
        first = min(
            (end for end in ends if 0 < end < len(values)), key=lambda end: abs(end - wanted)
        )
        nearest = roundest_after if self.small else roundest
        found = nearest(float(values[first - 1]), float(values[first]))
        # A predicate cannot express infinity.
        return found if math.isfinite(found) else None

    def equals(self, share: float) -> tuple[float, int] | None:
        """Return a value, and its number of samples, that keeps every threshold away from a share of all samples.

        None if some threshold keeps the share within 1 % of all samples.
        """
        if self.eligible is None or not len(self.eligible):
            return None
        wanted, left, right = self._equals(share)
        apart = min(wanted - left, right - wanted) > 0.01 * self.samples
        return (float(self.eligible[left]), right - left) if apart else None

    def _equals(self, share: float) -> tuple[float, int, int]:
        """Return the index that keeps a share of all samples, and the range of values equal to the one there."""
        import numpy as np

        values = self.eligible
        assert values is not None
        wanted = len(values) - share * self.samples
        index = min(max(round(wanted), 0), len(values) - 1)
        if self.small:
            wanted, index = share * self.samples, len(values) - 1 - index
        place = values[index]
        left, right = (int(np.searchsorted(values, place, side)) for side in ("left", "right"))
        return wanted, left, right

    def quantile(self, share: float) -> float:
        """Return the quantile of the values for this share: always one of the values."""
        import numpy as np

        assert self.numbers is not None
        return float(np.quantile(self.numbers, share, method="inverted_cdf"))


class LedgerScores:
    """The scores in the ledgers of a run. Raises LedgerError if a folder has no ledgers."""

    def __init__(self, folder: Path) -> None:
        self._layout = Layout(folder)
        if not self._layout.has_ledgers:
            raise no_ledgers(folder)
        self.records = records_in_order(self._layout)
        if not self.records:
            raise LedgerError(f"no shard of {folder} is finished yet")
        # All shards of the run.
        asked = recorded_run(self._layout.run_file).get("urls")
        # Not finished.
        self.left = max(len(asked) - len(self.records), 0) if isinstance(asked, list) else 0
        self._recipe = recorded_recipe(self._layout.run_file)
        self._decided = bool(self._recipe.get("where"))
        self.calls = calls_of(read_about(self._path(self.records[0])))

    def named(self, text: str) -> list[ScoreCall]:
        """Return the scores of a name, or one with settings. Raises MissingScore."""
        try:
            canonical = str(parse_score(text, all_scores()))
        # A custom score that is not installed here.
        except ValueError:
            canonical = text
        exact = [call for call in self.calls if str(call) == canonical]
        found = exact or [call for call in self.calls if call.name == text]
        if not found:
            raise MissingScore(
                text,
                f"{self._layout.folder} has no {text}; it has {', '.join(map(str, self.calls))}",
            )
        return found

    def column(self, call: ScoreCall) -> ScoreColumn:
        """Read all values of a score, one shard after the other. Raises LedgerError."""
        column = ScoreColumn(call, self.calls[call], _keeps_small(call))
        parts = [_read(column, self._path(record)) for record in self.records]
        if column.kind == "number":
            column.numbers = column.eligible = _sorted(parts)
            column.where = self._predicate(column)
            if column.where:
                column.twins.clear()
                column.eligible = _sorted(
                    [_eligible(column, self._path(record)) for record in self.records]
                )
        return column

    def _path(self, record: ShardRecord) -> Path:
        return self._layout.ledger(record.name)

    def _predicate(self, column: ScoreColumn) -> str | None:
        """Return the terms that a predicate needs in addition to a threshold if values are missing."""
        if ("among", "kept") in column.call.settings and self._decided:
            # It compares the samples that other terms keep.
            return None
        if not column.missing:
            return ""
        where = str(self._recipe.get("where", ""))
        if not where:
            return None
        try:
            plan = plan_of(_recipe(where))
        except ExpressionError as error:
            raise unreadable_predicate(self._layout.folder, error) from None
        numbers = (call for call, number in plan.ranks.items() if column.call in number.calls)
        left_out = {column.call, *numbers, *plan.compared_among_kept}
        terms = parse(where, all_scores()).terms
        others = " and ".join(str(term) for term in terms if left_out.isdisjoint(term.scores))
        for each in (others, where):
            if (
                each
                and not plan_of(_recipe(each)).compared_among_kept
                and self._decides(each, column)
            ):
                return each
        return None

    def _decides(self, where: str, column: ScoreColumn) -> bool:
        column_of_one = ScoreColumn(column.call, column.kind, column.small, where=where)
        try:
            for record in self.records:
                _eligible(column_of_one, self._path(record))
        except MissingScore:
            return False
        return True


def _recipe(where: str) -> Recipe:
    return canonical_recipe(Recipe(where=where))


def _read(column: ScoreColumn, path: Path) -> "Numbers":
    """Add the values of a shard to a column; return its numbers, NaN for missing ones."""
    import numpy as np

    samples, _ = read_ledger(path, calls=[column.call])
    values = samples.columns[column.call]
    found = (
        _numbers(column, samples) if column.kind == "number" else np.full(len(samples.rows), np.nan)
    )
    column.samples += len(samples.rows)
    for place, row in enumerate(samples.rows):
        value = values.get(row.number, NOT_COMPUTED)
        if row.trouble:
            column.unreadable += 1
            found[place] = np.nan
            continue
        column.several += isinstance(value, list)
        if value is NOT_COMPUTED:
            column.missing += 1
        elif isinstance(value, Unknown) or (column.kind == "number" and np.isnan(found[place])):
            column.failed[missing_value(value).slug] += 1
        elif column.kind != "number":
            _count(column, value if isinstance(value, list) else [value])
    if column.kind == "number":
        _keep_twins(column, [row.key for row in samples.rows], found)
    return found


def _numbers(column: ScoreColumn, samples: SampleTable) -> "Numbers":
    """Return the number of each sample that a threshold looks at, NaN if there is none."""
    import numpy as np

    # The catalog may not have the score here.
    term = Term(str(column.call), ScoreValue(column.call, "number"))
    expression = Expression(term.text, (term,), {})
    found, missing = numbers(expression, samples, samples.rows, largest=column.small)
    return np.where(missing, np.nan, found)


def _keeps_small(call: ScoreCall) -> bool:
    """Return whether a threshold usually keeps the smaller numbers of a score; False for one that is not known here."""
    try:
        return score_of(call, "fp32").keeps_small
    # A custom score that is not installed, or a file that is elsewhere.
    except (KeyError, ValueError):
        return False


def _eligible(column: ScoreColumn, path: Path) -> "Numbers":
    """Return the numbers of a shard, NaN for samples that ``column.where`` does not keep. Raises MissingScore."""
    import numpy as np

    plan = plan_of(_recipe(column.where or ""))
    samples, _ = read_ledger(path)
    set_outcomes(plan, samples)
    found = _numbers(column, samples)
    for place, row in enumerate(samples.rows):
        if row.outcome != "kept":
            found[place] = np.nan
        elif row.number not in samples.columns[column.call]:
            raise MissingScore(
                str(column.call),
                f"{column.call} was not computed for sample {row.number} of {path}",
            )
    _keep_twins(column, [row.key for row in samples.rows], found)
    return found


def _keep_twins(column: ScoreColumn, keys: list[str], numbers: "Numbers") -> None:
    if len(set(keys)) < len(keys):
        column.twins.append((keys, numbers))


def _parted(keys: Sequence[str], kept: "Flags") -> int:
    """Return how many kept samples are quarantined because all samples between two of one key are dropped."""
    rows = [Row(number, key, 0, 0) for number, key in enumerate(keys) if kept[number]]
    part_twins(rows)
    return sum(row.outcome != "kept" for row in rows)


def _sorted(parts: "list[Numbers]") -> "Numbers":
    import numpy as np

    numbers = np.concatenate(parts)
    # NaN is last.
    numbers.sort()
    return numbers[: int(np.searchsorted(numbers, np.nan))]


def _count(column: ScoreColumn, values: Iterable[Any]) -> None:
    if column.counts is not None:
        column.counts.update(values)
        if len(column.counts) > _MOST_TEXTS:
            column.counts = None


# Characters of a text.
_LONGEST = 40


def example_predicate(layout: Layout, names: Sequence[str]) -> str:
    """Return a predicate over one score that keeps some samples of the first shard with values; "" if there is none."""
    for name in names:
        try:
            samples, about = read_ledger(layout.ledger(name))
        except LedgerError:
            continue
        for call, kind in calls_of(about).items():
            values = samples.columns[call].values()
            known = [
                value
                for value in values
                if not isinstance(value, (list, Unknown)) and value is not None
            ]
            if found := _condition(str(call), kind, known):
                return found
    return ""


def _condition(call: str, kind: str, values: Sequence[Constant]) -> str:
    numbers = [
        value
        for value in values
        if isinstance(value, (int, float)) and kind == "number" and math.isfinite(value)
    ]
    if numbers:
        return f"{call} >= {_floor(statistics.median_low(numbers))}"
    if kind == "boolean" and values:
        return call if all(values) else f"not {call}"
    texts = Counter(
        value
        for value in values
        if isinstance(value, str) and kind == "text" and len(value) <= _LONGEST
    )
    return f"{call} == {spelled(texts.most_common(1)[0][0])}" if texts else ""


def _floor(value: float) -> str:
    """Return a number of few digits close to a value, but not above it.

    >>> _floor(153.21), _floor(0.987654321), _floor(-3.0), _floor(20480)
    ('153.2', '0.987654321', '-3', '20480')
    """
    short = float(f"{value:.4g}")
    return number_text(short if value * 0.99 <= short <= value else float(value))
