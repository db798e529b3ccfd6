"""The values of one sample: a row of the ledger."""

from collections.abc import Iterable
from typing import Literal

from wdsflow.filtering.where.language.values import Call, Unknown, Value
from wdsflow.filtering.where.predicate import Judgement

NOT_COMPARED = Unknown("not-compared", "another term excludes the sample")  # for scores that compare all samples

Outcome = Literal["kept", "dropped", "quarantined"]


class Row:
    """One sample: its place, its values, and its outcome.

    ``values`` holds computed values and, as ``Unknown``, those that could not be computed; values that were not needed
    are missing. ``gathered`` holds the data of scores that compare samples, ``embedded`` the place of embeddings: by
    column, (source, place in a spool).
    """

    __slots__ = (
        "about", "detail", "digest", "embedded", "end", "error", "fields", "gathered", "judgement", "key", "number", "outcome", "start", "term", "trouble",
        "values",
    )  # fmt: skip

    def __init__(self, number: int, key: str, start: int, end: int) -> None:
        self.number, self.key, self.start, self.end = number, key, start, end
        self.fields: tuple[str, ...] = ()
        self.trouble = ""  # the fault of the tar here, or the reason of a stage
        self.about = ""  # details of the trouble
        self.judgement: Judgement | None = None  # if already decided
        self.values: dict[Call, Value | Unknown] = {}
        self.gathered: dict[Call, bytes] = {}
        self.embedded: dict[str, list[tuple[str, int]]] = {}
        self.digest: str | None = None  # xxh3_128 of the image's bytes
        self.outcome: Outcome = "kept"
        self.term: str | None = None
        self.error: str | None = None
        self.detail: str | None = None

    def quarantine(self, error: str, detail: str = "") -> None:
        """Quarantine the sample."""
        self.outcome, self.term, self.error, self.detail = "quarantined", None, error, detail or None


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
