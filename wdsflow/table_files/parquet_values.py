"""Values of Parquet files that need a look when DuckDB gives them to Python: times with a zone."""

from collections.abc import Callable, Sequence
from datetime import timezone
from typing import Any, Protocol

_WITH_ZONE = "TIMESTAMP WITH TIME ZONE"

Convert = Callable[[Any], Any]


class DuckType(Protocol):
    """A type of DuckDB, whose text is its SQL."""

    @property
    def id(self) -> str:
        """The kind of type, such as "bigint", "list", "struct" or "timestamp with time zone"."""

    @property
    def children(self) -> Sequence[tuple[str, Any]]:
        """The names and types of the parts of a nested type."""


def without_zones(kind: DuckType, cell: str) -> str:
    """Return the SQL of a cell with its times in UTC, without their zone: for it, DuckDB 1 needs the package pytz."""
    text = str(kind)
    return f"{cell}::{text.replace(_WITH_ZONE, 'TIMESTAMP')}" if _WITH_ZONE in text else cell


def in_utc(kind: DuckType) -> Convert | None:
    """Return the function that adds UTC to the times of a value; None if its type has none with a zone."""
    if _WITH_ZONE not in str(kind):
        return None
    if kind.id == "timestamp with time zone":
        return lambda value: value.replace(tzinfo=timezone.utc)
    children = dict(kind.children)
    if kind.id in {"list", "array"}:
        item = _or_null(in_utc(children["child"]))
        return lambda values: [item(value) for value in values]
    if kind.id == "map":
        key, value = _or_null(in_utc(children["key"])), _or_null(in_utc(children["value"]))
        return lambda values: {key(name): value(content) for name, content in values.items()}
    parts = {name: _or_null(in_utc(child)) for name, child in children.items()}
    return lambda values: {name: parts[name](value) for name, value in values.items()}


def _or_null(convert: Convert | None) -> Convert:
    if convert is None:
        return lambda value: value
    return lambda value: None if value is None else convert(value)
