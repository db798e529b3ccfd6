"""Between two passes: scores that compare all samples, from what the first pass gathered."""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from wdsflow.filtering.layout import Layout
from wdsflow.filtering.ledger import LedgerError, read_ledger
from wdsflow.filtering.program import Program
from wdsflow.filtering.resolved import as_json, from_json
from wdsflow.filtering.row import NOT_COMPARED, Row
from wdsflow.filtering.where.values import Call, Unknown, Value
from wdsflow.shards.atomic import write_file
from wdsflow.stages.scores.base import DatasetScore


def resolve(
    program: Program, shards: Sequence[tuple[int, str]], scored: Layout, target: Layout, *, memory: int = 256 << 20
) -> None:
    """Compare all samples by each score of the dataset, and leave its values in a file a shard.

    A sample takes part unless the tar, or another term of the predicate, puts it out: of two alike of which one is too
    small, the other is no duplicate. ``shards`` are numbers and names in order; ``scored`` has a ledger for each.
    Raises LedgerError where one is missing, or has not gathered what is compared.
    """
    for old in (target.inside / "resolved").glob("*.json"):
        old.unlink()
    names = dict(shards)
    for number, call in enumerate(program.dataset_calls):
        score = program.scores[call]
        assert isinstance(score, DatasetScore)
        found = as_json(
            call, score, score.resolve(_records(program, call, shards, scored), target.spool, memory=memory)
        )
        for shard, values in groupby(found, key=lambda item: item[0]):
            lines = {str(sample): value for _, sample, value in values}
            write_file(target.resolved(names[shard], number), json.dumps(lines).encode())


def _records(
    program: Program, call: Call, shards: Sequence[tuple[int, str]], scored: Layout
) -> Iterator[tuple[int, int, bytes]]:
    for number, name in shards:
        rows, _ = read_ledger(scored.ledger(name))
        program.forget_resolved(rows)
        for row in rows:
            if isinstance(row.values.get(call), Unknown) or not program.is_candidate(row):
                continue
            if call not in row.gathered:
                path = scored.ledger(name)
                raise LedgerError(f"{path} has not gathered what {call} compares, for sample {row.number}: score first")
            yield number, row.number, row.gathered[call]


def add_resolved(program: Program, rows: Sequence[Row], layout: Layout, name: str) -> None:
    """Add the values that ``resolve`` left; samples that took no part are not compared."""
    program.forget_resolved(rows)
    apart = {row.number for row in rows if not program.is_candidate(row)}
    for number, call in enumerate(program.dataset_calls):
        try:
            found: Mapping[str, Value] = json.loads(layout.resolved(name, number).read_bytes())
        except FileNotFoundError:
            found = {}  # no sample of this shard took part
        score = program.scores[call]
        assert isinstance(score, DatasetScore)
        for row in rows:
            if str(row.number) in found:
                row.values[call] = from_json(score, found[str(row.number)], row, name, program.recipe)
            elif row.number in apart:
                row.values.setdefault(call, NOT_COMPARED)
