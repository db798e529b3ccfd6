"""Samples that would become neighbours of one key."""

from collections.abc import Iterable

from wdsflow.filtering.ledger.ledger_row import Row


def part_twins(rows: Iterable[Row]) -> None:
    """Quarantine samples that would follow a sample of the same key, because what is between them is left out.

    Readers would take the two for one sample.
    """
    before: Row | None = None
    for row in rows:
        if row.outcome == "kept":
            parted = before is not None and (before.number != row.number - 1 or before.end != row.start)
            if parted and before is not None and before.key == row.key:
                row.quarantine("same-key", "the sample before it in the output has the same key")
                continue
            before = row
