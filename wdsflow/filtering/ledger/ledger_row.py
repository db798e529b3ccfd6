"""The samples of a shard as a table, and the metadata of the file that holds it."""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, TypedDict, TypeVar

from wdsflow.expressions.score_call import Constant, ScoreCall
from wdsflow.filtering.predicates.values import Unknown, Value
from wdsflow.text.shell import quote_path

if TYPE_CHECKING:
    from wdsflow.expressions.errors import ExpressionError
    from wdsflow.expressions.expression import Term
    from wdsflow.filtering.run_folder import ShardRecord

T = TypeVar("T", str, str | None)

NOT_COMPARED = Unknown("not-compared", "another term excludes the sample")  # for scores that compare all samples

Outcome = Literal["kept", "dropped", "quarantined"]


def in_utf8(text: T) -> T:
    """Return text that UTF-8 can encode."""
    return text if not text or text.isascii() else text.encode("utf-8", "backslashreplace").decode()


class Judgement(NamedTuple):
    """What a predicate says of a sample.

    ``keep`` is True, False, or None if it will never be known: ``unknown`` says why. ``term`` is the deciding term: the
    first false one, or the first unknown one.
    """

    keep: bool | None
    term: "Term | None" = None
    unknown: Unknown | None = None


class ResizedImage(TypedDict):
    """An image that was made smaller: each value as it was, and as it is in the output."""

    field: list[str]
    size: list[tuple[int, int]]  # width and height
    bytes: list[int]
    xxh3: list[str]  # xxh3_128 of its bytes


class Row:
    """One sample: its place, and its outcome. Its values are in the columns of its table."""

    # No list and no dict of its own: the garbage collector would look at those of all samples again and again.
    __slots__ = (
        "about", "detail", "digest", "end", "error", "fields", "judgement", "key", "lacks", "number", "outcome", "resized", "start", "step", "term", "trouble",
    )  # fmt: skip

    def __init__(self, number: int, key: str, start: int, end: int) -> None:
        self.number, self.key, self.start, self.end = number, key, start, end
        self.fields: tuple[str, ...] = ()
        self.trouble = ""  # the fault of the tar, or the reason of a stage
        self.about = ""  # details of the trouble
        self.judgement: Judgement | None = None  # if already decided
        self.step = 0  # of the predicate: the scores of those before it are known, as far as they are needed
        self.lacks: Sequence[ScoreCall] = ()  # the scores of the step that are needed next
        self.digest: str | None = None  # xxh3_128 of the image's bytes
        self.resized: Sequence[ResizedImage] = ()
        self.outcome: Outcome = "kept"
        self.term: str | None = None
        self.error: str | None = None
        self.detail: str | None = None

    def quarantine(self, error: str, detail: str = "") -> None:
        """Quarantine the sample."""
        self.outcome, self.term, self.error, self.detail = "quarantined", None, error, detail or None


# By the number of the sample. A value that was not needed is missing; one that could not be computed is Unknown.
Column: TypeAlias = dict[int, Value | Unknown]


class SampleTable:
    """The samples of a shard: a row for each, a column for each score.

    ``gathered`` has the data of scores that compare samples, by the number of the sample as well.
    """

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self.rows = list(rows)
        self.columns: defaultdict[ScoreCall, Column] = defaultdict(dict)
        self.gathered: defaultdict[ScoreCall, dict[int, bytes]] = defaultdict(dict)

    @property
    def readable(self) -> list[Row]:
        """The samples that the tar has whole, and that no stage dropped."""
        return [row for row in self.rows if not row.trouble]

    def has(self, row: Row, call: ScoreCall) -> bool:
        """Return whether a score was computed for a sample, or its data was gathered."""
        return row.number in self.columns[call] or row.number in self.gathered[call]


def part_twins(rows: Iterable[Row]) -> None:
    """Quarantine samples that would directly follow one of the same key, because all between them is left out.

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


class ScoreColumnAbout(TypedDict):
    """A score that has a column."""

    name: str
    settings: dict[str, Constant | list[Constant]]
    kind: str


class EmbeddingAbout(TypedDict):
    """The two columns of the embeddings of a model: the first one of each sample, and ``more``."""

    column: str
    more: str
    of: str
    settings: dict[str, Constant]
    dtype: str
    size: int
    model: dict[str, object]
    facts: object


class About(TypedDict, total=False):
    """The metadata of a ledger: facts of the walk over the shard, and how scores were computed."""

    format: int
    wdsflow: str
    scores: list[ScoreColumnAbout]
    gathered: list[str]
    embeddings: list[EmbeddingAbout]
    recipe: dict[str, object]
    view: dict[str, object]
    identities: dict[str, object]
    shard: dict[str, object]
    input: dict[str, object]
    headers: list[tuple[int, int]]
    members: int
    left_out: dict[str, int]
    damage: list[str]


FORMAT = 1
GROUP = 2048  # rows that are written together, and read together: 4 MiB of 1,024 numbers each
KEYS = "embedded"  # the column with the source of each embedding


class LedgerError(ValueError):
    """A file that is not a ledger, or a ledger that lacks something."""


class SettledByLedger(LedgerError):
    """An option that contradicts a ledger. ``options`` names it, as a field of the recipe."""

    def __init__(self, message: str, *options: str) -> None:
        super().__init__(message)
        self.options = options


class MissingScore(LedgerError):
    """A ledger without a score that a predicate needs: ``call``."""

    def __init__(self, call: str, text: str) -> None:
        super().__init__(text)
        self.call = call


class NotCompared(MissingScore):
    """A ledger without the data by which a score, ``call``, compares samples."""


def no_ledgers(folder: Path) -> LedgerError:
    """Return the error about a folder without ledgers."""
    return LedgerError(f"{folder} has no ledgers: give the folder that filter or measure wrote")


def unreadable_predicate(folder: Path, error: "ExpressionError") -> LedgerError:
    """Return the error about the predicate of a run that cannot be read here: of a custom score, or of an older version."""
    hint = f" ({error.hint})" if error.hint else ""
    command = f"wdsflow filter SHARDS -o NEW --ledger {quote_path(str(folder))} --where ..."
    return LedgerError(
        f"the predicate of the run in {folder} cannot be read here: {error.detail}{hint}."
        f" Its scores can be used with another predicate: {command}"
    )


def read_about(path: Path) -> About:
    """Return the metadata of a ledger. Raises LedgerError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_schema(path).metadata or {}
        about: About = json.loads(metadata[b"wdsflow"])
    except FileNotFoundError:
        raise LedgerError(f"the ledger {path} does not exist: was the shard scored?") from None
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise LedgerError(f"{path} is not a ledger: {error}") from None
    if about.get("format") != FORMAT:
        raise LedgerError(f"{path} is a ledger of another version ({about.get('format')}): measure again")
    return about


def calls_of(about: About) -> dict[ScoreCall, str]:
    """Return the scores that a ledger has columns for, with their kinds."""
    found: dict[ScoreCall, str] = {}
    for item in about["scores"]:
        settings = (
            (name, tuple(value) if isinstance(value, list) else value) for name, value in item["settings"].items()
        )
        found[ScoreCall(item["name"], tuple(sorted(settings)))] = item["kind"]
    return found


def embedding_columns(about: About) -> list[str]:
    """Return the columns of a ledger other than those of scores."""
    entries = about.get("embeddings", [])
    return [KEYS, *(entry[each] for entry in entries for each in ("column", "more"))] if entries else []


class OtherShard(LedgerError):
    """A ledger that was made from another shard, or from one that has changed since."""

    def __init__(self, path: Path, url: str) -> None:
        super().__init__(
            f"{path} was made from another shard than {url}, or the shard has changed since: measure again"
        )


def same_shard(about: About, record: "ShardRecord", path: Path) -> None:
    """Raise LedgerError if a ledger was made from another shard, or the shard has changed since."""
    then, now = about["input"], record.input
    if any(then.get(mark) != now.get(mark) for mark in now if mark != "changed"):
        raise OtherShard(path, record.url)
