"""Turns the values of a row into contents of whole fields and values inside a sample's json."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .join_on import FieldToSet
from .table_values import BYTES, UNUSABLE, StoredValue, json_of

# Reasons why a value, or a sample, gets nothing.
NULL = "null in the table"
BROKEN_JSON = "its json is not an object"
NO_NAME = "its key holds a zero byte"
TOO_LARGE = "its json is larger than 64 MiB"
LARGEST_JSON = 64 << 20

Values = Sequence[StoredValue]


class ValueToSet(NamedTuple):
    """A value that samples get from a row.

    ``name``: inside the field, "" for the whole field. ``column``: its number in a row.
    """

    field: str
    name: str
    # As given by --set.
    label: str
    column: int


class RowContents(NamedTuple):
    """What a row sets in a sample.

    Attributes:
        whole: contents of fields.
        inside: names of values in the json, and the values as JSON.
        unset: labels of values that set nothing, and the reasons.
    """

    whole: dict[str, bytes]
    inside: list[tuple[str, str]]
    unset: list[tuple[str, str]]


def values_to_set(fields: Iterable[FieldToSet], columns: Sequence[str]) -> list[ValueToSet]:
    """Return the values that samples get from rows with these columns."""
    return [
        ValueToSet(field.field, field.name, str(field), columns.index(field.column))
        for field in fields
    ]


def row_contents(to_set: Iterable[ValueToSet], values: Values) -> RowContents:
    """Return what the values of a row set. A null sets nothing."""
    contents = RowContents({}, [], [])
    for value in to_set:
        stored = values[value.column]
        reason = why_unset(stored, inside=bool(value.name))
        if reason:
            contents.unset.append((value.label, reason))
        elif value.name:
            contents.inside.append((value.name, json_of(stored)))
        else:
            contents.whole[value.field] = stored[1] or b""
    return contents


def why_unset(value: StoredValue, *, inside: bool) -> str:
    """Return the reason why a value cannot be set, "" if it can. ``inside``: in the json."""
    kind, data = value
    if data is None:
        return NULL
    if kind == UNUSABLE:
        return data.decode()
    if inside and kind == BYTES:
        return "bytes, which JSON cannot hold"
    return ""
