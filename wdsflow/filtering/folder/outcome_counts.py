"""Counts the outcomes of the samples of a shard, with an example of each kind."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from wdsflow.filtering.ledger.arrow_columns import in_utf8
from wdsflow.filtering.ledger.ledger_row import NOT_COMPARED, Row
from wdsflow.filtering.where.language.values import Unknown, Value, spelled

from .shard_record import ShardRecord

if TYPE_CHECKING:
    from wdsflow.filtering.deciding.program import Program

_LONGEST = 200  # characters


def count(rows: Sequence[Row], record: ShardRecord, program: "Program") -> None:
    """Add the outcomes of its samples to the record of a shard."""
    dropped: Counter[str] = Counter()
    quarantined: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    examples: dict[str, tuple[str, str]] = {}
    for row in rows:
        if row.outcome == "kept":
            record.kept += 1
        elif row.outcome == "dropped":
            dropped[what := row.term or ""] += 1
            if dropped[what] == 1:
                examples[f"dropped {what}"] = _example(row, row.detail or _values(row, what, program))
        else:
            quarantined[what := row.error or ""] += 1
            if quarantined[what] == 1:
                examples[f"quarantined {what}"] = _example(row, row.detail or "")
        for call, value in row.values.items():
            if isinstance(value, Unknown) and value != NOT_COMPARED:
                failed[what := f"{call}: {value.slug}"] += 1
                if failed[what] == 1:
                    examples[f"failed {what}"] = _example(row, value.detail)
    record.samples = len(rows)
    record.uncounted = uncounted(row.key for row in rows if row.outcome == "kept")
    record.dropped, record.quarantined = dict(sorted(dropped.items())), dict(sorted(quarantined.items()))
    record.failed, record.examples = dict(sorted(failed.items())), dict(sorted(examples.items()))


def uncounted(keys: Iterable[str]) -> int:
    """Return how many samples readers do not count: those whose key came before."""
    known, found = set[str](), 0
    for key in keys:
        found += key in known
        known.add(key)
    return found


def _example(row: Row, about: str) -> tuple[str, str]:
    return in_utf8(row.key)[:_LONGEST], in_utf8(about)[:_LONGEST]


def _values(row: Row, term: str, program: "Program") -> str:
    """Return the values by which a term dropped a sample, such as "min_side is 64"."""
    found = next((each for each in (program.plan.terms if program.plan else ()) if str(each) == term), None)
    known = [(call, row.values[call]) for call in (found.calls if found else ()) if call in row.values]
    return ", ".join(f"{call} is {_shown(value)}" for call, value in known)


def _shown(value: Value | Unknown) -> str:
    if value is None or isinstance(value, Unknown):
        return f"unknown ({value.slug})" if value else "null"
    return " and ".join(map(_shown, value)) if isinstance(value, list) else spelled(value)
