"""A list of kept images with which those of other shards are compared: see ``--near``."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from wdsflow.filtering.ledger.ledger_metadata import LedgerError, calls_of, read_metadata
from wdsflow.filtering.ledger.read_ledger import read_ledger
from wdsflow.records.run_folder import Layout, ShardRecord
from wdsflow.shards.atomic import write_file
from wdsflow.stages.scores.reference_lists import bytes_of_list

from .embedding_matrix import embedding_column, kept_vectors


def write_reference_list(layout: Layout, records: Sequence[ShardRecord], path: Path) -> int:
    """Write a list of images for ``phash_distance`` or ``embedding_distance``; return its length.

    Raises ValueError if it would be empty: no filter takes such a list.
    """
    if path.name.endswith("embeddings.npz"):
        return _write_vectors(layout, records, path)
    return _write_hashes(layout, records, path)


def _write_hashes(layout: Layout, records: Sequence[ShardRecord], path: Path) -> int:
    import numpy as np

    hashes: list[int] = []
    for record in records:
        hashes += [int(text, 16) for text in _hashes(layout.ledger(record.name))]
    _refuse_empty(hashes)
    distinct = np.array(sorted(set(hashes)), np.uint64)
    write_file(path, bytes_of_list("phash", distinct, {}))
    return len(hashes)


def _write_vectors(layout: Layout, records: Sequence[ShardRecord], path: Path) -> int:
    import numpy as np

    column, _ = embedding_column(layout, records, "image")
    parts = [values for _, values in kept_vectors(layout, records, column)]
    _refuse_empty(parts)
    # All ledgers have this column, so that the first one describes it.
    entries = read_metadata(layout.ledger(records[0].name)).get("embeddings", [])
    entry = next(entry for entry in entries if entry["column"] == column)
    metadata = {"model": entry["model"], "settings": entry["settings"]}
    write_file(path, bytes_of_list("embeddings", np.concatenate(parts), metadata))
    return sum(map(len, parts))


def _refuse_empty(values: Sequence[object]) -> None:
    if not values:
        raise ValueError("no kept sample has an image that can be read: the list would be empty")


def _hashes(ledger: Path) -> Iterator[str]:
    """Yield the hashes of the kept samples' images.

    Raises LedgerError if phash was not computed.
    """
    samples, metadata = read_ledger(ledger)
    call = next((call for call in calls_of(metadata) if call.name == "phash"), None)
    if call is None:
        raise LedgerError(f"{ledger} has no phash for a list of hashes: add phash to --scores")
    for row in samples.rows:
        if row.outcome != "kept":
            continue
        value = samples.columns[call].get(row.number)
        # A list if the sample has several images. Others could not be computed.
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str):
                yield text
