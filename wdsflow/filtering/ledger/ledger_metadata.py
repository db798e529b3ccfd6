"""What the metadata of a ledger says: its scores, the recipe and shard it is of, its embeddings."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wdsflow.filtering.where.language.values import Call

if TYPE_CHECKING:
    from wdsflow.filtering.folder.shard_record import ShardRecord

FORMAT = 1
GROUP = 2048  # rows that are written together, and read together: 4 MiB of 1,024 numbers each
KEYS = "embedded"  # the column with the source of each embedding


class LedgerError(ValueError):
    """A file that is not a ledger, or a ledger that lacks something."""


class MissingScore(LedgerError):
    """A ledger without a score that a predicate needs: ``call``."""

    def __init__(self, call: str, text: str) -> None:
        super().__init__(text)
        self.call = call


def no_ledgers(folder: Path) -> LedgerError:
    """Return the error about a folder without ledgers."""
    return LedgerError(f"{folder} has no ledgers: give the folder that filter or score wrote")


def read_about(path: Path) -> dict[str, Any]:
    """Return the metadata of a ledger. Raises LedgerError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_schema(path).metadata or {}
        about = json.loads(metadata[b"wdsflow"])
    except FileNotFoundError:
        raise LedgerError(f"the ledger {path} does not exist: was the shard scored?") from None
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise LedgerError(f"{path} is not a ledger: {error}") from None
    if about.get("format") != FORMAT:
        raise LedgerError(f"{path} is a ledger of another version ({about.get('format')}): score again")
    return dict(about)


def calls_of(about: Mapping[str, Any]) -> dict[Call, str]:
    """Return the scores that a ledger has columns for, with their kinds."""
    return {Call(item["name"], _settings(item["settings"])): item["kind"] for item in about["scores"]}


def _settings(found: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple((name, tuple(value) if isinstance(value, list) else value) for name, value in sorted(found.items()))


def names_of(about: Mapping[str, Any]) -> list[str]:
    """Return the columns of a ledger other than those of scores."""
    entries = about.get("embeddings", [])
    return [KEYS, *(entry[each] for entry in entries for each in ("column", "more"))] if entries else []


class OtherShard(LedgerError):
    """A ledger that was made from another shard, or from one that has changed since."""

    def __init__(self, path: Path, url: str) -> None:
        super().__init__(f"{path} was made from another shard than {url}, or the shard has changed since: score again")


def same_shard(about: Mapping[str, Any], record: "ShardRecord", path: Path) -> None:
    """Raise LedgerError if a ledger was made from another shard, or the shard has changed since."""
    then, now = about["input"], record.input
    if any(then.get(mark) != now.get(mark) for mark in now if mark != "changed"):
        raise OtherShard(path, record.url)
