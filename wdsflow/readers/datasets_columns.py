"""The columns that Hugging Face datasets makes of the first samples of a shard."""

from wdsflow.scan.content.fitting import (
    MOST_VALUE,
    InferredColumns,
    UnknownColumns,
    holds_value,
    infer_columns,
    value_of,
)
from wdsflow.scan.naming import is_hidden
from wdsflow.shards.samples.grouping import Grouping, group_members
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import SourceError
from wdsflow.shards.source.opening import open_source
from wdsflow.shards.tar.members import split_name
from wdsflow.shards.tar.walk import Walk

# NUMEXAMPLES_FOR_FEATURES_INFERENCE.
EXAMPLES = 5


def first_columns(url: Shard, *, allow_pipe: bool = False, tables: bool = False) -> InferredColumns:
    """Return the columns that the first samples of a shard give to Hugging Face datasets.

    Reads no further than these samples. Nothing is raised: if the columns cannot be determined,
    ``unknown`` is the reason. Fields that do not decode are left out, because the reader ends
    there. ``tables``: a reader writes all values to a table, so that Arrow's types are needed.
    """
    try:
        rows = _rows(url, allow_pipe=allow_pipe)
        return infer_columns(url, rows, tables=tables)
    except UnknownColumns as error:
        reason = f"the columns of the first samples are not known: {error}"
    except SourceError as error:
        reason = f"the first samples could not be read: {error}"
    return InferredColumns(url, unknown=reason)


def _rows(url: Shard, *, allow_pipe: bool) -> list[dict[str, object]]:
    """Return the values of each of the first samples, by field name.

    Only fields that hold values are included.
    """
    rows: list[dict[str, object]] = []
    with open_source(url, allow_pipe=allow_pipe) as source:
        walk = Walk(source, contents=True)
        for begins, _, suffix, row in group_members(walk, Grouping(_visible)):
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
