"""Computes scores that compare samples, between two passes, from data that the first pass gathered."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TypeAlias

from wdsflow.expressions.score_call import ScoreCall
from wdsflow.filtering.ledger.ledger import read_ledger
from wdsflow.filtering.ledger.ledger_metadata import LedgerError, NotCompared
from wdsflow.filtering.ledger.sample_table import NOT_COMPARED, Row, SampleTable
from wdsflow.filtering.predicates.catalog import RankedNumber, gathers_like
from wdsflow.filtering.predicates.values import Unknown, Value
from wdsflow.filtering.recipe.recipe import Recipe
from wdsflow.filtering.run_folder import Layout
from wdsflow.memory.batching.attempt import describe
from wdsflow.shards.atomic import scratch_folder, write_file
from wdsflow.stages.scores.base import DatasetScore
from wdsflow.stages.scores.sample_view import View, ViewOptions

from .outcomes import MOST, BrokenRunError, BrokenScoreError, is_fault
from .program import RAISED, Program, guarded, is_ours, plain_value
from .row_values import missing_value, no_result, numbers

Stored: TypeAlias = Value | dict[str, str]  # a dict is an Unknown


def resolve(
    program: Program, shards: Sequence[tuple[int, str]], scored: Layout, target: Layout, *, memory: int = 256 << 20
) -> None:
    """Compare samples by each comparing score, and write its values to one file per shard.

    Scores that compare only samples that the rest of the predicate keeps come last: for them the other scores are ordinary
    terms. ``shards`` are numbers and names in order; ``scored`` has a ledger for each. Raises LedgerError if one is
    missing, or lacks the gathered data.
    """
    for old in (target.inside / "resolved").glob("*.json"):
        old.unlink()
    names = dict(shards)
    for call in sorted(program.dataset_calls, key=program.kept_calls.__contains__):
        score = program.scores[call]
        assert isinstance(score, DatasetScore)
        scratch, records = target.spool / "compared", _records(program, call, shards, scored, target)
        with scratch_folder(scratch):
            found = _as_json(call, score, score.resolve(records, scratch, memory=memory))
            for shard, values in groupby(found, key=lambda item: item[0]):
                lines = {str(sample): value for _, sample, value in values}
                write_file(_resolved(target, program, names[shard], call), json.dumps(lines).encode())


def _records(
    program: Program, call: ScoreCall, shards: Sequence[tuple[int, str]], scored: Layout, target: Layout
) -> Iterator[tuple[int, int, bytes]]:
    for number, name in shards:
        samples, _ = read_ledger(scored.ledger(name))
        _forget_resolved(program, samples)
        if call in program.kept_calls:
            _add(program, samples, target, name, _of_all(program))
        for row in program.compared(samples, call):
            if isinstance(samples.columns[call].get(row.number), Unknown):
                continue
            if row.number not in samples.gathered[call]:
                path = scored.ledger(name)
                if call in program.ranks:
                    calls = program.ranks[call].calls
                    lacks = next(each for each in calls if row.number not in samples.columns[each])
                    raise NotCompared(
                        str(lacks), f"{path} has no {lacks} of sample {row.number}, which is ranked by it"
                    )
                raise NotCompared(
                    str(call), f"{path} has no data of {call} to compare, for sample {row.number}: measure again"
                )
            yield number, row.number, samples.gathered[call][row.number]


def add_resolved(program: Program, samples: SampleTable, layout: Layout, name: str) -> None:
    """Add the values of ``resolve``; samples that were not part of it are not compared."""
    _forget_resolved(program, samples)
    _add(program, samples, layout, name, _of_all(program))
    compared = {call: {row.number for row in program.compared(samples, call)} for call in program.kept_calls}
    _add(program, samples, layout, name, [*compared])
    for call, members in compared.items():
        for row in samples.rows:
            if row.number not in members:
                samples.columns[call].setdefault(row.number, NOT_COMPARED)


def _of_all(program: Program) -> list[ScoreCall]:
    return [call for call in program.dataset_calls if call not in program.kept_calls]


def _add(program: Program, samples: SampleTable, layout: Layout, name: str, calls: Sequence[ScoreCall]) -> None:
    for call in calls:
        try:
            found: Mapping[str, Stored] = json.loads(_resolved(layout, program, name, call).read_bytes())
        except FileNotFoundError:
            continue  # no sample of this shard was compared
        score = program.scores[call]
        assert isinstance(score, DatasetScore)
        for row in samples.rows:
            if str(row.number) in found:
                value = _from_json(score, found[str(row.number)], row, program.recipe)
                samples.columns[call][row.number] = value


def _resolved(layout: Layout, program: Program, name: str, call: ScoreCall) -> Path:
    return layout.resolved(name, program.dataset_calls.index(call))


def _forget_resolved(program: Program, samples: SampleTable) -> None:
    """Remove values of earlier comparisons, which may be with other samples. The gathered data is kept.

    Scores that compare the same data differently share it. The values that ranks compare are already known.
    """
    known = [*samples.columns, *samples.gathered]
    for call, number in program.ranks.items():
        samples.columns[call].clear()
        _rank_records(samples, call, number)
    for call in program.gathered_calls:
        column, gathered = samples.columns[call], samples.gathered[call]
        for other in known:
            if other == call or not gathers_like(call, other):
                continue
            for sample, data in samples.gathered[other].items():
                gathered.setdefault(sample, data)
            for sample, value in samples.columns[other].items():
                if _is_failure(value):
                    column.setdefault(sample, value)
        # A sample with data is compared, whatever became of it in an earlier comparison.
        samples.columns[call] = {
            sample: value for sample, value in column.items() if _is_failure(value) and sample not in gathered
        }


def _is_failure(value: Value | Unknown) -> bool:
    return isinstance(value, Unknown) and value != NOT_COMPARED


def _rank_records(samples: SampleTable, call: ScoreCall, number: RankedNumber) -> None:
    """Set the bytes by which samples are ranked, or why they have no rank; nothing while a score is missing."""
    rows, columns = samples.readable, {each: samples.columns[each] for each in number.calls}
    found, missing = numbers(number.expression, samples, rows, largest=number.score.end == "bottom")
    for place, row in enumerate(rows):
        if not missing[place]:
            samples.gathered[call][row.number] = number.score.record(float(found[place]), row.key)
        elif all(row.number in column for column in columns.values()):
            values = (column[row.number] for column in columns.values())
            causes = (missing_value(value) for value in values if _is_missing(value))
            cause = next(causes, None) or no_result(str(number.expression), number.calls, samples, row)
            samples.columns[call][row.number] = cause


def _is_missing(value: Value | Unknown) -> bool:
    items = value if isinstance(value, list) else [value]
    return not items or any(item is None or isinstance(item, Unknown) for item in items)


def _as_json(
    call: ScoreCall, score: DatasetScore, found: Iterable[tuple[int, int, Value]]
) -> Iterator[tuple[int, int, Stored]]:
    """Yield (shard, sample, value) from ``resolve``; a refused value becomes {"slug": ..., "detail": ...}.

    Raises BrokenRunError if ``resolve`` of a custom score fails, or the first 100 of its values are refused.
    """
    if is_ours(score):
        yield from found
        return
    refused: int | None = 0  # None as soon as one value is valid
    try:
        for shard, sample, value in found:
            plain = guarded(partial(plain_value, score, value), None)
            if not isinstance(plain, Unknown):
                refused = None
                yield shard, sample, plain
                continue
            refused = None if refused is None or not is_fault(plain) else refused + 1
            if refused == MOST:
                raise BrokenRunError(str(BrokenScoreError(str(call), plain, f"sample {sample} of shard {shard}")))
            yield shard, sample, {"slug": plain.slug, "detail": plain.detail}
    except (OSError, LedgerError, BrokenRunError):  # from the caller, which reads the records
        raise
    except RAISED as error:
        raise BrokenRunError(f"{call}: resolve() raised {describe(error)}") from error


def _from_json(score: DatasetScore, value: Stored, row: Row, recipe: Recipe) -> Value | Unknown:
    """Return a value of ``_as_json``, or Unknown, also for a list without one value for each image of the sample."""
    if isinstance(value, dict):
        return Unknown(**value)
    if not isinstance(value, list):
        return value
    view = View(dict.fromkeys(row.fields, b""), ViewOptions(images=recipe.image, captions=recipe.caption))
    return guarded(partial(plain_value, score, value), view)
