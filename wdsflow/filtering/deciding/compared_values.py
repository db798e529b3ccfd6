"""The values of scores that compare samples.

They are kept in files between two passes, then added to the table of a shard.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TypeAlias

from wdsflow.expressions.score_call import ScoreCall
from wdsflow.filtering.ledger.sample_table import NOT_COMPARED, LedgerRow, SampleTable
from wdsflow.filtering.predicates.catalog import RankedNumber
from wdsflow.filtering.predicates.gathered_data import gathers_same_data
from wdsflow.filtering.predicates.values import Unknown, Value
from wdsflow.filtering.recipe.recipe import Recipe
from wdsflow.records.run_folder import Layout
from wdsflow.shards.atomic import write_file
from wdsflow.stages.scores.base import DatasetScore
from wdsflow.stages.scores.sample_view import View, ViewOptions

from .compared_rows import compared_rows
from .plan import FilterPlan
from .row_values import missing_value_reason, no_result_reason, numbers
from .score_values import plain_value, result_or_unknown

# A dict is an Unknown, with slug and detail.
StoredValue: TypeAlias = Value | dict[str, str]


def write_values(
    plan: FilterPlan,
    call: ScoreCall,
    shards: Sequence[tuple[int, str]],
    target: Layout,
    values: Iterable[tuple[int, int, StoredValue]],
) -> None:
    """Write the values of a score, (shard, sample, value) in order, to a file for each shard."""
    names = dict(shards)
    for shard, rows in groupby(values, key=itemgetter(0)):
        by_sample = {str(sample): value for _, sample, value in rows}
        write_file(_path(target, plan, names[shard], call), json.dumps(by_sample).encode())


def add_compared(plan: FilterPlan, samples: SampleTable, layout: Layout, name: str) -> None:
    """Set the values of all comparisons; samples that were not part of one are not compared."""
    forget_compared(plan, samples)
    add_values(plan, samples, layout, name, plan.compared_among_all)
    # The samples that the other terms keep, before the values of these comparisons are set.
    members = {
        call: {row.number for row in compared_rows(plan, samples, call)}
        for call in plan.compared_among_kept
    }
    add_values(plan, samples, layout, name, [*members])
    for call, numbers_of_members in members.items():
        column = samples.columns[call]
        for row in samples.rows:
            if row.number not in numbers_of_members:
                column.setdefault(row.number, NOT_COMPARED)


def add_values(
    plan: FilterPlan, samples: SampleTable, layout: Layout, name: str, calls: Sequence[ScoreCall]
) -> None:
    """Set the values of some scores that compare samples, by their files."""
    for call in calls:
        try:
            stored: Mapping[str, StoredValue] = json.loads(
                _path(layout, plan, name, call).read_bytes()
            )
        except FileNotFoundError:
            # No sample of this shard was compared.
            continue
        score = plan.scores[call]
        assert isinstance(score, DatasetScore)
        column = samples.columns[call]
        for row in samples.rows:
            number = str(row.number)
            if number in stored:
                column[row.number] = _value(score, stored[number], row, plan.recipe)


def _path(layout: Layout, plan: FilterPlan, name: str, call: ScoreCall) -> Path:
    return layout.resolved(name, plan.dataset_calls.index(call))


def _value(
    score: DatasetScore, value: StoredValue, row: LedgerRow, recipe: Recipe
) -> Value | Unknown:
    """Return a value of a file, or Unknown.

    A list without one value for each image of the sample is also Unknown.
    """
    if isinstance(value, dict):
        return Unknown(**value)
    if not isinstance(value, list):
        return value
    view = View(
        dict.fromkeys(row.fields, b""), ViewOptions(images=recipe.image, captions=recipe.caption)
    )
    return result_or_unknown(partial(plain_value, score, value), view)


def forget_compared(plan: FilterPlan, samples: SampleTable) -> None:
    """Remove values of earlier comparisons, which may be with other samples.

    What cannot be compared stays: why no data was gathered, or which value is missing in a number.
    Scores that compare the same data differently share it.
    """
    for call, ranked in plan.ranks.items():
        samples.columns[call] = dict(_samples_without_rank(samples, ranked))
    stored = [*samples.columns, *samples.gathered]
    for call in plan.gathered_calls:
        related = [other for other in stored if other != call and gathers_same_data(call, other)]
        _copy_gathered(samples, call, related)


def _samples_without_rank(
    samples: SampleTable, ranked: RankedNumber
) -> Iterator[tuple[int, Unknown]]:
    """Yield the samples that have no rank, because a value is missing in their number, and why."""
    rows = samples.readable
    _, missing = numbers(ranked.expression, samples, rows, largest=ranked.score.end == "bottom")
    columns = [samples.columns[call] for call in ranked.calls]
    for row, is_missing in zip(rows, missing.tolist(), strict=True):
        if not is_missing or any(row.number not in column for column in columns):
            continue
        causes = [
            missing_value_reason(column[row.number])
            for column in columns
            if _is_missing(column[row.number])
        ]
        yield (
            row.number,
            causes[0]
            if causes
            else no_result_reason(str(ranked.expression), ranked.calls, samples, row),
        )


def _is_missing(value: Value | Unknown) -> bool:
    items = value if isinstance(value, list) else [value]
    return not items or any(item is None or isinstance(item, Unknown) for item in items)


def _copy_gathered(samples: SampleTable, call: ScoreCall, related: Sequence[ScoreCall]) -> None:
    """Give a score the data that was gathered for related scores.

    Of its column, only the failures are kept.
    """
    column, gathered = samples.columns[call], samples.gathered[call]
    for other in related:
        for sample, data in samples.gathered[other].items():
            gathered.setdefault(sample, data)
        for sample, value in samples.columns[other].items():
            if _is_failure(value):
                column.setdefault(sample, value)
    # A sample with data is compared, whatever the result of an earlier comparison was.
    samples.columns[call] = {
        sample: value
        for sample, value in column.items()
        if _is_failure(value) and sample not in gathered
    }


def _is_failure(value: Value | Unknown) -> bool:
    return isinstance(value, Unknown) and value != NOT_COMPARED
