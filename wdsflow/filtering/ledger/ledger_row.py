"""What is known of one sample: a row of the ledger."""

from typing import Literal

from wdsflow.filtering.where.language.values import Call, Unknown, Value
from wdsflow.filtering.where.predicate import Judgement

NOT_COMPARED = Unknown("not-compared", "another term puts the sample out")  # said of scores that compare all samples

Outcome = Literal["kept", "dropped", "quarantined"]


class Row:
    """One sample: where it lies, what was computed, and what became of it.

    ``values`` holds what could be computed and, as ``Unknown``, what could not; what was not needed is not in it.
    ``gathered`` holds what scores of the whole dataset compare samples by, ``embedded`` where embeddings are kept: by
    column, (what it is of, place in a spool).
    """

    __slots__ = (
        "about", "detail", "digest", "embedded", "end", "error", "fields", "gathered", "judgement", "key", "number", "outcome", "start", "term", "trouble",
        "values",
    )  # fmt: skip

    def __init__(self, number: int, key: str, start: int, end: int) -> None:
        self.number, self.key, self.start, self.end = number, key, start, end
        self.fields: tuple[str, ...] = ()
        self.trouble = ""  # what is wrong with the tar here, or what a stage had against the sample
        self.about = ""  # more of that
        self.judgement: Judgement | None = None  # where it is settled already
        self.values: dict[Call, Value | Unknown] = {}
        self.gathered: dict[Call, bytes] = {}
        self.embedded: dict[str, list[tuple[str, int]]] = {}
        self.digest: str | None = None  # xxh3_128 of the image's bytes
        self.outcome: Outcome = "kept"
        self.term: str | None = None
        self.error: str | None = None
        self.detail: str | None = None

    def quarantine(self, error: str, detail: str = "") -> None:
        """Put the sample aside."""
        self.outcome, self.term, self.error, self.detail = "quarantined", None, error, detail or None
