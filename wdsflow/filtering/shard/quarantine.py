"""Writes quarantined samples: byte for byte in separate files, with their reasons."""

from collections.abc import Sequence
from typing import Any

from wdsflow.filtering.folder.layout import Layout
from wdsflow.filtering.kinds import kind_of
from wdsflow.filtering.ledger.arrow_columns import in_utf8
from wdsflow.filtering.ledger.ledger_row import Row
from wdsflow.filtering.where.language.values import Unknown
from wdsflow.pieces.pieces import with_headers
from wdsflow.pieces.writer import write_pieces
from wdsflow.shards.atomic import write_json_lines
from wdsflow.shards.shard_identity import fingerprint
from wdsflow.shards.source.base import Range, Source


def write_quarantine(
    layout: Layout, name: str, source: Source, url: str, rows: Sequence[Row], headers: Sequence[Range]
) -> dict[str, Any] | None:
    """Write quarantined samples of a shard as a file of its kind, and one with their reasons next to it, one line each.

    A line has key, shard, sample, offset, size, error, stage (the stage or score that failed, or "tar"), detail.
    Returns the identity of the first. If no sample is quarantined, files of an earlier run are removed. Raises
    OSError, SourceChangedError.
    """
    aside = [row for row in rows if row.outcome == "quarantined"]
    path, reasons = layout.quarantine(name), layout.reasons(name)
    if not aside:
        path.unlink(missing_ok=True)
        reasons.unlink(missing_ok=True)
        return None
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json_lines(reasons, (_reason(row, url) for row in aside))
    ranges = with_headers([(row.start, row.end) for row in aside], headers)
    write_pieces(path, source, ranges, closed=kind_of(name).is_tar)
    return fingerprint(str(path))


def _reason(row: Row, url: str) -> dict[str, Any]:
    return {
        "key": in_utf8(row.key),
        "shard": url,
        "sample": row.number,
        "offset": row.start,
        "size": row.end - row.start,
        "error": row.error,
        "stage": stage_of(row),
        "detail": in_utf8(row.detail),
    }


def stage_of(row: Row) -> str:
    """Return the stage or score whose error quarantined a sample, "tar" if the archive itself is the reason."""
    if row.trouble:
        return row.trouble.partition(":")[0] if ":" in row.trouble else "tar"
    found = (str(call) for call, value in row.values.items() if isinstance(value, Unknown) and value.slug == row.error)
    return next(found, "where")
