"""What the page of a run knows of each readable sample.

Values of scores, results of terms, and samples of one key.
"""

import base64
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from wdsflow.expressions.evaluator import Evaluator
from wdsflow.expressions.expression import Term
from wdsflow.expressions.score_call import ScoreCall
from wdsflow.filtering.deciding.row_values import results
from wdsflow.filtering.ledger.sample_table import SampleTable
from wdsflow.filtering.predicates.catalog import parse
from wdsflow.filtering.predicates.values import NOT_COMPUTED, NotComputed, Unknown, Value
from wdsflow.stages.scores.score_catalog import all_scores

RowValue: TypeAlias = Value | Unknown | NotComputed


def values_of(shards: Iterable[SampleTable], call: ScoreCall) -> list[RowValue]:
    """Return the value of a score for each readable row."""
    return [
        samples.columns[call].get(row.number, NOT_COMPUTED)
        for samples in shards
        for row in samples.readable
    ]


def repeated_keys_of(shards: Iterable[SampleTable]) -> list[list[int]]:
    """Return the readable rows whose key occurs more than once in their shard.

    Each item is row, group, and 1 if the row follows its twin.

    If all samples between two of them are dropped, a run quarantines the second as ``same-key``.
    """
    twins: list[list[int]] = []
    first = groups = 0
    for samples in shards:
        rows = samples.readable
        counts = Counter(row.key for row in rows)
        numbers = {
            key: groups + number
            for number, (key, count) in enumerate(counts.items(), 1)
            if count > 1
        }
        for index, row in enumerate(rows):
            if row.key in numbers:
                before = rows[index - 1] if index else None
                follows = before is not None and (before.key, before.number) == (
                    row.key,
                    row.number - 1,
                )
                twins.append([first + index, numbers[row.key], int(follows)])
        first, groups = first + len(rows), groups + len(counts)
    return twins


def results_of(shards: Iterable[SampleTable], terms: Sequence[Term]) -> str:
    """Return the result of terms for each readable row, as bytes in base64.

    0: false; 1: true; 2: unknown; 3: not computed.
    """
    evaluator = Evaluator(parse(" and ".join(map(str, terms)), all_scores()))
    codes = bytearray()
    for samples in shards:
        for result in results(evaluator, samples, samples.readable):
            if isinstance(result, Unknown):
                codes.append(2)
            else:
                codes.append(3 if result is None else int(result))
    return base64.b64encode(codes).decode()
