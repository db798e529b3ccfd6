"""The metadata of a ledger, and errors about unsuitable ledgers.

Such ledgers lack something, or belong to another shard.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from wdsflow.expressions.score_call import Constant, ScoreCall
from wdsflow.shards.shard_identity import JOIN, same_input
from wdsflow.table_files.parquet_file import metadata_of
from wdsflow.text.shell import quote_path

if TYPE_CHECKING:
    from wdsflow.expressions.errors import ExpressionError
    from wdsflow.records.run_folder import ShardRecord

FORMAT = 1
# Rows that are written together, and read together: 4 MiB of 1,024 numbers each.
GROUP = 2048
# The column with the source of each embedding.
KEYS = "embedded"


class ScoreColumnMetadata(TypedDict):
    """A score that has a column."""

    name: str
    settings: dict[str, Constant | list[Constant]]
    kind: str


class EmbeddingMetadata(TypedDict):
    """The two columns of the embeddings of a model: the first one of each sample, and ``more``."""

    column: str
    more: str
    of: str
    settings: dict[str, Constant]
    dtype: str
    size: int
    model: dict[str, object]
    facts: object


class LedgerMetadata(TypedDict, total=False):
    """The metadata of a ledger: facts of the walk over the shard, and how scores were computed."""

    format: int
    wdsflow: str
    scores: list[ScoreColumnMetadata]
    gathered: list[str]
    embeddings: list[EmbeddingMetadata]
    recipe: dict[str, object]
    view: dict[str, object]
    identities: dict[str, object]
    shard: dict[str, object]
    input: dict[str, object]
    headers: list[tuple[int, int]]
    members: int
    left_out: dict[str, int]
    damage: list[str]


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
    """Return the error about the predicate of a run that cannot be read here.

    The predicate has a custom score, or is of an older version.
    """
    hint = f" ({error.hint})" if error.hint else ""
    command = f"wdsflow filter SHARDS -o NEW --ledger {quote_path(str(folder))} --where ..."
    return LedgerError(
        f"the predicate of the run in {folder} cannot be read here: {error.detail}{hint}."
        f" Its scores can be used with another predicate: {command}"
    )


def read_metadata(path: Path) -> LedgerMetadata:
    """Return the metadata of a ledger. Raises LedgerError."""
    try:
        metadata: LedgerMetadata = json.loads(metadata_of(path)["wdsflow"])
    except FileNotFoundError:
        raise LedgerError(f"the ledger {path} does not exist: was the shard scored?") from None
    except (OSError, KeyError, ValueError) as error:
        raise LedgerError(f"{path} is not a ledger: {error}") from None
    if metadata.get("format") != FORMAT:
        raise LedgerError(
            f"{path} is a ledger of another version ({metadata.get('format')}): measure again"
        )
    return metadata


def calls_of(metadata: LedgerMetadata) -> dict[ScoreCall, str]:
    """Return the scores that a ledger has columns for, with their kinds."""
    calls: dict[ScoreCall, str] = {}
    for item in metadata["scores"]:
        settings = (
            (name, tuple(value) if isinstance(value, list) else value)
            for name, value in item["settings"].items()
        )
        calls[ScoreCall(item["name"], tuple(sorted(settings)))] = item["kind"]
    return calls


def distinct_names(names: Sequence[str], reserved: Collection[str] = ()) -> list[str]:
    """Return names for columns that differ in more than case.

    They differ from each other and from reserved names.

    DuckDB does not distinguish upper and lower case: the second of two such names gets a number.

    >>> distinct_names(["n", "N", "n 2", "Key"], {"key"})
    ['n', 'N 2', 'n 2 2', 'Key 2']
    """
    used = {name.lower() for name in reserved}
    distinct = []
    for name in names:
        number = 1
        candidate = name
        while candidate.lower() in used:
            number += 1
            candidate = f"{name} {number}"
        used.add(candidate.lower())
        distinct.append(candidate)
    return distinct


def embedding_columns(metadata: LedgerMetadata) -> list[str]:
    """Return the columns of a ledger other than those of scores."""
    entries = metadata.get("embeddings", [])
    return (
        [KEYS, *(entry[each] for entry in entries for each in ("column", "more"))]
        if entries
        else []
    )


class OtherShard(LedgerError):
    """A ledger that was made from another shard, or from one that has changed since."""

    def __init__(self, path: Path, url: str) -> None:
        super().__init__(
            f"{path} was made from another shard than {url}, or the shard has changed since: measure again"
        )


class LedgerOfOtherJoin(LedgerError):
    """A ledger of samples with the fields of another table, or of none. ``joined``: of a table."""

    def __init__(self, message: str, *, joined: bool) -> None:
        super().__init__(message)
        self.joined = joined


def check_same_join(then: Mapping[str, object], join: str, path: Path) -> None:
    """Raise LedgerOfOtherJoin if a ledger is of samples with the fields of another table.

    Args:
        then: the identity of its shard.
        join: the digest of the table that is joined now, "" for none.
        path: the ledger.
    """
    stored = then.get(JOIN, "")
    if stored == join:
        return
    if not stored:
        why = "samples without the fields of the table: measure the shards with it, into another folder"
    elif not join:
        why = "samples with the fields of a table, which only wdsflow filter with the same --join can use"
    else:
        why = "samples with the fields of another table, or of other columns of it"
    raise LedgerOfOtherJoin(f"{path} is a ledger of {why}", joined=bool(stored))


def check_same_shard(
    metadata: LedgerMetadata, record: "ShardRecord", path: Path, *, any_table: bool = False
) -> None:
    """Raise LedgerError if a ledger was made from another shard, or the shard has changed since.

    ``any_table``: the samples may have had the fields of another table, or of none.
    """
    then, now = metadata["input"], record.input
    if any_table:
        then = {mark: value for mark, value in then.items() if mark != JOIN}
        now = {mark: value for mark, value in now.items() if mark != JOIN}
    check_same_join(then, str(now.get(JOIN, "")), path)
    if not same_input(then, now):
        raise OtherShard(path, record.url)
