"""What the first samples of a set are for a reader that makes its columns of them."""

from typing import Any

from wdsflow.scan.content.typed_columns import MOST_VALUE, Columns, UnknownColumns, holds_value, infer, value_of
from wdsflow.scan.naming import is_hidden
from wdsflow.shards.samples.grouping import Grouping, grouped
from wdsflow.shards.source.base import SourceError
from wdsflow.shards.source.opening import open_source
from wdsflow.shards.tar.member_names import split_name
from wdsflow.shards.tar.walk import Walk

from .datasets import EXAMPLES


def first_columns(url: str, *, allow_pipe: bool = False, tables: bool = False) -> Columns:
    """Return the columns that the first samples of a shard give to Hugging Face datasets.

    Reads as far as these samples go. Nothing is raised: where the columns cannot be found out, ``unknown`` says why.
    Fields that do not decode are left out, as the reader ends there for that reason. ``tables``: a reader
    writes all values to a table, so that Arrow's own types are needed.
    """
    try:
        rows = _rows(url, allow_pipe=allow_pipe)
        return infer(url, rows, tables=tables) if any(rows) else Columns(url)
    except UnknownColumns as unknown:
        return Columns(url, unknown=f"the columns of the first samples are not known: {unknown}")
    except SourceError as error:
        return Columns(url, unknown=f"the first samples could not be read: {error}")


def _rows(url: str, *, allow_pipe: bool) -> list[dict[str, Any]]:
    """Return the values of each of the first samples by field name, of those fields that hold values."""
    rows: list[dict[str, Any]] = []
    with open_source(url, allow_pipe=allow_pipe) as source:
        walk = Walk(source, contents=True)
        for begins, _, suffix, row in grouped(walk, _VISIBLE):
            if begins:
                if len(rows) == EXAMPLES:
                    return rows
                rows.append({})
            if not holds_value(suffix):
                continue
            if row[1] > MOST_VALUE or row[4] == "sparse":
                raise UnknownColumns(f"{suffix} is too large or sparse")
            try:
                rows[-1][suffix] = value_of(suffix, walk.read(row))
            except UnknownColumns:
                raise
            except Exception:  # noqa: BLE001 - decoders raise what they like; the scan counts such fields
                continue
    return rows


def _visible(name: str) -> tuple[str, str] | None:
    """Split a name as datasets does, which skips hidden members and no metadata."""
    key, suffix = split_name(name)
    return None if key is None or suffix is None or is_hidden(name) else (key, suffix)


_VISIBLE = Grouping(_visible)
