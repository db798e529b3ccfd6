"""Writes quarantined samples: byte for byte in separate tars, with their reasons."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wdsflow.filtering.ledger.arrow_columns import in_utf8
from wdsflow.filtering.ledger.ledger_row import Row
from wdsflow.shards.atomic import write_file
from wdsflow.shards.samples.copy_ranges import with_headers, write_ranges
from wdsflow.shards.samples.tar_sample import Range
from wdsflow.shards.shard_identity import fingerprint
from wdsflow.shards.source.base import Source


def write_quarantine(
    path: Path, source: Source, url: str, rows: Sequence[Row], headers: Sequence[Range]
) -> dict[str, Any] | None:
    """Write quarantined samples of a shard as a tar, and a ``.jsonl`` next to it, one line per sample.

    A line has key, shard, sample, offset, size, error, stage (the stage or score that failed, or "tar"), detail.
    Returns the identity of the tar. If no sample is quarantined, files of an earlier run are removed. Raises OSError.
    """
    aside = [row for row in rows if row.outcome == "quarantined"]
    reasons = path.with_suffix(".jsonl")
    if not aside:
        path.unlink(missing_ok=True)
        reasons.unlink(missing_ok=True)
        return None
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(reasons, b"".join(json.dumps(line).encode() + b"\n" for line in reasons_of(aside, url)))
    write_ranges(path, source, with_headers([(row.start, row.end) for row in aside], headers))
    return fingerprint(str(path))


def reasons_of(aside: Sequence[Row], url: str) -> list[dict[str, Any]]:
    """Return a line for each quarantined row."""
    return [
        {
            "key": in_utf8(row.key),
            "shard": url,
            "sample": row.number,
            "offset": row.start,
            "size": row.end - row.start,
            "error": row.error,
            "stage": stage_of(row),
            "detail": in_utf8(row.detail),
        }
        for row in aside
    ]


def stage_of(row: Row) -> str:
    """Return the stage or score whose error quarantined a sample, "tar" if the archive itself is the reason."""
    if row.trouble:
        return row.trouble.partition(":")[0] if ":" in row.trouble else "tar"
    from wdsflow.filtering.where.language.values import Unknown

    found = (str(call) for call, value in row.values.items() if isinstance(value, Unknown) and value.slug == row.error)
    return next(found, "where")
