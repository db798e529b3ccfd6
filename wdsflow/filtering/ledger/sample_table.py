"""The samples of a shard as a table.

It has a row for each sample, with its outcome, and a column for each score.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, TypedDict

from wdsflow.expressions.score_call import ScoreCall
from wdsflow.filtering.predicates.values import Unknown, Value

if TYPE_CHECKING:
    from wdsflow.expressions.expression import Term

# For scores that compare all samples.
NOT_COMPARED = Unknown("not-compared", "another term excludes the sample")

Outcome = Literal["kept", "dropped", "quarantined"]


class Judgement(NamedTuple):
    """What a predicate says of a sample.

    ``keep`` is True, False, or None if it will never be known: ``unknown`` says why. ``term`` is
    the deciding term: the first false one, or the first unknown one.
    """

    keep: bool | None
    term: "Term | None" = None
    unknown: Unknown | None = None


class ResizedImage(TypedDict):
    """An image that was made smaller: each value as it was, and as it is in the output."""

    field: list[str]
    # Width and height.
    size: list[tuple[int, int]]
    bytes: list[int]
    # xxh3_128 of its bytes.
    xxh3: list[str]


class LedgerRow:
    """One sample: its position in the tar, and its outcome.

    Its values are in the columns of its table.
    """

    # No list and no dict of its own: the garbage collector
    # would look at those of all samples again and again.
    __slots__ = (
        "detail", "digest", "end", "error", "fields", "judgement", "key", "number", "outcome", "resized", "start", "term", "trouble", "trouble_detail",
    )  # fmt: skip

    def __init__(self, number: int, key: str, start: int, end: int) -> None:
        self.number, self.key, self.start, self.end = number, key, start, end
        self.fields: tuple[str, ...] = ()
        # The fault of the tar, or the reason of a stage.
        self.trouble = ""
        # Details of the trouble.
        self.trouble_detail = ""
        # If already decided.
        self.judgement: Judgement | None = None
        # xxh3_128 of the image's bytes.
        self.digest: str | None = None
        self.resized: Sequence[ResizedImage] = ()
        self.outcome: Outcome = "kept"
        self.term: str | None = None
        self.error: str | None = None
        self.detail: str | None = None

    def quarantine(self, error: str, detail: str = "") -> None:
        """Quarantine the sample."""
        self.outcome, self.term, self.error, self.detail = (
            "quarantined",
            None,
            error,
            detail or None,
        )


# By the number of the sample. A value that was not needed is missing; one that could not be
# computed is Unknown.
Column: TypeAlias = dict[int, Value | Unknown]


class SampleTable:
    """The samples of a shard: a row for each, a column for each score.

    Attributes:
        rows: the samples, in the order of the tar.
        columns: the values of each score.
        gathered: the data of scores that compare samples, by the number of the sample as well.
        needed: the scores that a sample needs next to be decided, by its number; of those that are
            not decided.
    """

    def __init__(self, rows: Iterable[LedgerRow] = ()) -> None:
        self.rows = list(rows)
        self.columns: defaultdict[ScoreCall, Column] = defaultdict(dict)
        self.gathered: defaultdict[ScoreCall, dict[int, bytes]] = defaultdict(dict)
        self.needed: dict[int, Sequence[ScoreCall]] = {}

    @property
    def readable(self) -> list[LedgerRow]:
        """The samples that the tar has completely, and that no stage dropped."""
        return [row for row in self.rows if not row.trouble]

    def needed_by(self, row: LedgerRow) -> Sequence[ScoreCall]:
        """Return the scores that a sample needs next to be decided; none if it is decided."""
        return self.needed.get(row.number, ()) if row.judgement is None else ()

    def has_value(self, row: LedgerRow, call: ScoreCall) -> bool:
        """Return whether a score was computed for a sample, or its data was gathered."""
        return row.number in self.columns[call] or row.number in self.gathered[call]


def quarantine_same_key_neighbours(rows: Iterable[LedgerRow]) -> None:
    """Quarantine samples that would directly follow one of the same key.

    This happens if all samples between the two are left out.

    Readers would take the two for one sample.
    """
    before: LedgerRow | None = None
    for row in rows:
        if row.outcome == "kept":
            parted = before is not None and (
                before.number != row.number - 1 or before.end != row.start
            )
            if parted and before is not None and before.key == row.key:
                row.quarantine("same-key", "the sample before it in the output has the same key")
                continue
            before = row
