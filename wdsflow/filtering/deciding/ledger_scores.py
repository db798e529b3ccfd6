"""Reads the scores in the ledgers of a run, one column at a time."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wdsflow.expressions.errors import ExpressionError
from wdsflow.expressions.expression import Expression, Term
from wdsflow.expressions.score_call import ScoreCall
from wdsflow.expressions.tree import ScoreValue
from wdsflow.filtering.ledger.ledger_metadata import (
    LedgerError,
    MissingScore,
    calls_of,
    no_ledgers,
    read_metadata,
    unreadable_predicate,
)
from wdsflow.filtering.ledger.read_ledger import read_ledger
from wdsflow.filtering.ledger.sample_table import SampleTable
from wdsflow.filtering.predicates.catalog import parse, parse_score
from wdsflow.filtering.predicates.sample_facts import score_of
from wdsflow.filtering.predicates.values import NOT_COMPUTED, Unknown
from wdsflow.filtering.recipe.recipe import Recipe, canonical_recipe
from wdsflow.records.run_folder import (
    Layout,
    ShardRecord,
    recorded_recipe,
    recorded_run,
    records_in_order,
)
from wdsflow.stages.scores.score_catalog import all_scores

from .plan import plan_of
from .row_values import missing_value_reason, numbers
from .sample_outcomes import set_outcomes
from .score_column import ScoreColumn

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

# Distinct values of a text that are counted.
_MOST_TEXTS = 10_000


class LedgerScores:
    """The scores in the ledgers of a run. Raises LedgerError if a folder has no ledgers."""

    def __init__(self, folder: Path) -> None:
        self._layout = Layout(folder)
        if not self._layout.has_ledgers:
            raise no_ledgers(folder)
        self.records = records_in_order(self._layout)
        if not self.records:
            raise LedgerError(f"no shard of {folder} is finished yet")
        # Shards of the run that are not finished.
        self.remaining = 0
        urls = recorded_run(self._layout.run_file).get("urls")
        if isinstance(urls, list):
            self.remaining = max(len(urls) - len(self.records), 0)
        self._recipe = recorded_recipe(self._layout.run_file)
        self._decided = bool(self._recipe.get("where"))
        self.calls = calls_of(read_metadata(self._path(self.records[0])))

    def find_scores(self, text: str) -> list[ScoreCall]:
        """Return the scores of a name, or one with settings. Raises MissingScore."""
        try:
            canonical = str(parse_score(text, all_scores()))
        # A custom score that is not installed here.
        except ValueError:
            canonical = text
        matches = [call for call in self.calls if str(call) == canonical]
        if not matches:
            matches = [call for call in self.calls if call.name == text]
        if not matches:
            raise MissingScore(
                text,
                f"{self._layout.folder} has no {text}; it has {', '.join(map(str, self.calls))}",
            )
        return matches

    def column(self, call: ScoreCall) -> ScoreColumn:
        """Read all values of a score, one shard after the other. Raises LedgerError."""
        column = ScoreColumn(call, self.calls[call], _keeps_small(call))
        parts = [_read(column, self._path(record)) for record in self.records]
        if column.kind == "number":
            column.numbers = column.eligible = _sorted(parts)
            column.where = self._other_terms(column)
            if column.where:
                column.shards_with_repeated_keys.clear()
                column.eligible = _sorted(
                    [_eligible(column, self._path(record)) for record in self.records]
                )
        return column

    def _path(self, record: ShardRecord) -> Path:
        return self._layout.ledger(record.name)

    def _other_terms(self, column: ScoreColumn) -> str | None:
        """Return the terms that a predicate needs in addition to a threshold.

        "" if no values are missing. None if no terms of the run help.
        """
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
        ranks = [call for call, number in plan.ranks.items() if column.call in number.calls]
        left_out = {column.call, *ranks, *plan.compared_among_kept}
        terms = parse(where, all_scores()).terms
        others = " and ".join(str(term) for term in terms if left_out.isdisjoint(term.scores))
        for predicate in (others, where):
            if not predicate or plan_of(_recipe(predicate)).compared_among_kept:
                continue
            if self._all_kept_have_score(predicate, column):
                return predicate
        return None

    def _all_kept_have_score(self, where: str, column: ScoreColumn) -> bool:
        """Return whether all samples that a predicate keeps have the score."""
        tried = ScoreColumn(column.call, column.kind, column.keeps_small, where=where)
        try:
            for record in self.records:
                _eligible(tried, self._path(record))
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
    if column.kind == "number":
        score_numbers = _numbers(column, samples)
    else:
        score_numbers = np.full(len(samples.rows), np.nan)
    column.samples += len(samples.rows)
    for index, row in enumerate(samples.rows):
        value = values.get(row.number, NOT_COMPUTED)
        if row.trouble:
            column.unreadable += 1
            score_numbers[index] = np.nan
            continue
        if isinstance(value, list):
            column.several += 1
        is_missing_number = column.kind == "number" and np.isnan(score_numbers[index])
        if value is NOT_COMPUTED:
            column.missing += 1
        elif isinstance(value, Unknown) or is_missing_number:
            column.failed[missing_value_reason(value).slug] += 1
        elif column.kind != "number":
            _count(column, value if isinstance(value, list) else [value])
    if column.kind == "number":
        _add_repeated_keys(column, [row.key for row in samples.rows], score_numbers)
    return score_numbers


def _numbers(column: ScoreColumn, samples: SampleTable) -> "Numbers":
    """Return the number of each sample that a threshold looks at, NaN if there is none."""
    import numpy as np

    # The catalog may not have the score here.
    term = Term(str(column.call), ScoreValue(column.call, "number"))
    expression = Expression(term.text, (term,), {})
    values, missing = numbers(expression, samples, samples.rows, largest=column.keeps_small)
    return np.where(missing, np.nan, values)


def _keeps_small(call: ScoreCall) -> bool:
    """Return whether a threshold usually keeps the smaller numbers of a score.

    False for a score that is not installed.
    """
    try:
        return score_of(call, "fp32").keeps_small
    # A custom score that is not installed, or its file does not exist here.
    except (KeyError, ValueError):
        return False


def _eligible(column: ScoreColumn, path: Path) -> "Numbers":
    """Return the numbers of a shard, NaN for samples that ``column.where`` does not keep.

    Raises MissingScore.
    """
    import numpy as np

    plan = plan_of(_recipe(column.where or ""))
    samples, _ = read_ledger(path)
    set_outcomes(plan, samples)
    eligible = _numbers(column, samples)
    for index, row in enumerate(samples.rows):
        if row.outcome != "kept":
            eligible[index] = np.nan
        elif row.number not in samples.columns[column.call]:
            raise MissingScore(
                str(column.call),
                f"{column.call} was not computed for sample {row.number} of {path}",
            )
    _add_repeated_keys(column, [row.key for row in samples.rows], eligible)
    return eligible


def _add_repeated_keys(column: ScoreColumn, keys: list[str], numbers: "Numbers") -> None:
    """Add the keys and numbers of a shard if a key occurs more than once in it."""
    if len(set(keys)) < len(keys):
        column.shards_with_repeated_keys.append((keys, numbers))


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
