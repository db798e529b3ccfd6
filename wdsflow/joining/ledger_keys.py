"""Keys in a ledger: each is preceded by the name of its shard.

Keys of samples are unique within a shard only.
"""

import os
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from wdsflow.records.run_folder import ShardRecord, recorded_recipe
from wdsflow.shards.shard import Shard
from wdsflow.shards.shard_identity import JOIN, input_identity, same_input
from wdsflow.shards.shard_names import output_names
from wdsflow.shards.source.base import canonical_name
from wdsflow.table_files.errors import TableError

from .table_files import TableFiles

# Between the shard and the key.
_SEPARATOR = "\0"


def key_prefix(ledger: Path) -> str:
    """Return the prefix of the keys in a file of a ledger."""
    return ledger.stem + _SEPARATOR


def key_prefixes(table: TableFiles, urls: Sequence[Shard]) -> list[str]:
    """Return the prefix of keys for each shard.

    "" unless the table is a ledger, whose keys are per shard.

    A shard is that of the ledger with its url or path, or that was written next to the ledger, or
    otherwise the one of the same name. Raises TableError if several have that name, or if the shard
    is not the one that was scored; SourceError if it cannot be read.
    """
    if table.kind != "ledger":
        return [""] * len(urls)
    # Files of the ledger by urls and paths of shards.
    by_location: dict[str, Path] = {}
    by_name: defaultdict[str, list[Path]] = defaultdict(list)
    for path, record in table.shards.items():
        by_name[_name_of(record.url)].append(path)
        by_location[_output_of(path, record)] = path
        by_location[record.url] = path
        by_location[canonical_name(Shard.from_text(record.url))] = path
    counts = Counter(_name_of(url) for url in urls)
    prefixes = []
    for url in urls:
        ledger = by_location.get(url) or by_location.get(canonical_name(url))
        name = _name_of(url)
        if ledger is None and by_name[name]:
            if len(by_name[name]) > 1 or counts[name] > 1:
                raise TableError(
                    f"which shard of the ledger is {url}? Several are called {name}: measure it again"
                )
            ledger = by_name[name][0]
        if ledger is None:
            # No row of a ledger has a key without a prefix.
            prefixes.append("")
        else:
            _refuse_other_shard(url, ledger, table.shards[ledger])
            prefixes.append(key_prefix(ledger))
    return prefixes


def _refuse_other_shard(url: Shard, ledger: Path, record: ShardRecord) -> None:
    """Raise TableError if a shard is not the one that was scored, nor written by that run.

    If the ledger has hashes of images, these are compared instead: the shard may have been
    rewritten since.
    """
    has_hashes = recorded_recipe(ledger.parents[1] / "run.json").get("hash_images")
    if canonical_name(url) == _output_of(ledger, record) or has_hashes:
        return
    # Its keys are those of the shard, whatever the samples got from a table.
    then = {mark: value for mark, value in record.input.items() if mark != JOIN}
    if not same_input(then, input_identity(url)):
        raise TableError(
            f"{ledger} was made from another shard than {url}, or the shard has changed since: measure again"
        )


def _output_of(ledger: Path, record: ShardRecord) -> str:
    """Return the path of the output shard for a ledger file.

    The ledger is OUT/.wdsflow/ledger/0.parquet.
    """
    return os.path.realpath(ledger.parents[2] / record.name)


def _name_of(url: str) -> str:
    return output_names([url])[0]
