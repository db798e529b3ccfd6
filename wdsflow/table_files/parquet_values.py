"""Parquet values that must be checked or converted after DuckDB: dates, zoned times, and maps."""

from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, timezone
from typing import Any, Protocol

Convert = Callable[[Any], Any]

_ZONED = frozenset({"timestamp with time zone", "timestamptz_ns"})
_DATES = frozenset({"date", "timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns"})
_NESTED = frozenset({"list", "array", "struct", "map"})
# Their values can be the keys of a dict.
_KEYS = frozenset({"list", "array", "struct", "map", "union"})


class DuckType(Protocol):
    """A type of DuckDB, whose text is its SQL."""

    @property
    def id(self) -> str:
        """The kind of type, such as "bigint", "list", "struct" or "timestamp with time zone"."""

    @property
    def children(self) -> Sequence[tuple[str, Any]]:
        """The names and types of the parts of a nested type."""


def without_zones(kind: DuckType, cell: str) -> str:
    """Return the SQL of a cell with its times in UTC, without a time zone.

    For times with a zone, DuckDB needs the package pytz.
    """
    if not _has_zone(kind):
        return cell
    # DuckDB casts nanoseconds with a zone to microseconds with a zone alone.
    return f"{cell}::{_sql(kind, 'TIMESTAMPTZ')}::{_sql(kind, 'TIMESTAMP')}"


def converter(kind: DuckType) -> Convert | None:
    """Return the function that converts DuckDB's values of a type to their final form.

    None if they need no conversion.

    Times with a zone are in UTC, and keys of maps are texts. The function raises ValueError for a
    date or time that Python cannot hold, and for a map whose keys are lists or structs.
    """
    if kind.id in _ZONED:
        return _in_utc
    if kind.id in _DATES:
        return _checked_date
    if kind.id not in _NESTED:
        return None
    children = dict(kind.children)
    if kind.id == "map":
        return _map_converter(children["key"], children["value"])
    if kind.id == "struct":
        return _struct_converter(children)
    item = converter(children["child"])
    if item is None:
        return None
    return lambda values: [_converted(value, item) for value in values]


def _map_converter(key: DuckType, value: DuckType) -> Convert:
    if key.id in _KEYS:
        return _refuse_map
    content = converter(value)
    return lambda values: {str(name): _converted(item, content) for name, item in values.items()}


def _struct_converter(children: dict[str, DuckType]) -> Convert | None:
    parts = {name: converter(child) for name, child in children.items()}
    if not any(parts.values()):
        return None
    return lambda values: {name: _converted(value, parts[name]) for name, value in values.items()}


def _converted(value: Any, convert: Convert | None) -> Any:
    return value if value is None or convert is None else convert(value)


def _in_utc(value: "datetime | str") -> datetime:
    time: datetime = _checked_date(value)
    return time.replace(tzinfo=timezone.utc)


def _checked_date(value: "date | str") -> Any:
    # DuckDB gives those beyond the years of Python as texts.
    if isinstance(value, str):
        raise ValueError(f"{value} is beyond the years 1 to 9999")  # noqa: TRY004 - its type is that of DuckDB
    return value


def _refuse_map(_: object) -> Any:
    raise ValueError("the keys of a map are lists or structs")


def _has_zone(kind: DuckType) -> bool:
    return kind.id in _ZONED or any(_has_zone(child) for _, child in _parts(kind))


def _sql(kind: DuckType, zoned: str) -> str:
    """Return the SQL of a type, with another type in place of times with a zone."""
    if kind.id in _ZONED:
        return zoned
    parts = [(name, _sql(child, zoned)) for name, child in _parts(kind)]
    if kind.id == "struct":
        columns = [f'"{name.replace(chr(34), 2 * chr(34))}" {part}' for name, part in parts]
        return f"STRUCT({', '.join(columns)})"
    if kind.id == "map":
        return f"MAP({', '.join(part for _, part in parts)})"
    if kind.id == "list":
        return f"{parts[0][1]}[]"
    if kind.id == "array":
        size = dict(kind.children)["size"]
        return f"{parts[0][1]}[{size}]"
    return str(kind)


def _parts(kind: DuckType) -> Iterator[tuple[str, DuckType]]:
    """Yield the names and types of the parts of a nested type."""
    if kind.id in _NESTED:
        for name, child in kind.children:
            # The size of an array is listed like a part.
            if hasattr(child, "id"):
                yield name, child
