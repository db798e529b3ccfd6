"""The join of samples and table, and the columns for fields."""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

from wdsflow.shards.shard_names import IMAGE_FIELDS

HASHES = ("sha256", "xxh3")
# DuckDB's types of integers in Parquet files.
INTEGERS = frozenset("TINYINT SMALLINT INTEGER BIGINT UTINYINT USMALLINT UINTEGER UBIGINT".split())
_FIELD = re.compile(r"[^/\s.][^/\s]*")


@dataclass(frozen=True)
class JoinOn:
    """``kind``: "key", "json", "sha256" or "xxh3"; ``name``: of the value in the json; ``column``: of the table."""

    kind: str
    name: str
    column: str

    def __str__(self) -> str:
        what = f"json:{self.name}" if self.kind == "json" else self.kind
        return what if self.column == (self.name or self.kind) else f"{what}={self.column}"


@dataclass(frozen=True)
class FieldToSet:
    """``field``: of the samples, such as txt; ``name``: of the value inside of it, "" for the whole; ``column``: of the table."""

    field: str
    name: str
    column: str

    def __str__(self) -> str:
        return (
            f"{self.field}:{self.name}={self.column}"
            if self.name
            else f"{self.field}={self.column}"
        )


class WrongJoin(ValueError):
    """An invalid join; ``text``: a possible name of a value in the json, otherwise ""."""

    def __init__(self, message: str, text: str) -> None:
        super().__init__(message)
        self.text = text


def parse_on(text: str) -> JoinOn:
    """Parse ``key``, ``json:url``, ``sha256`` or ``xxh3``, each with ``=COLUMN`` if the column has another name. Raises ValueError.

    >>> parse_on("json:url=URL"), str(parse_on("key"))
    (JoinOn(kind='json', name='url', column='URL'), 'key')
    """
    what, _, column = text.partition("=")
    kind, colon, name = what.partition(":")
    if kind == "json" and name:
        return JoinOn("json", name, column or name)
    if colon or kind not in {"key", *HASHES}:
        raise WrongJoin(
            f"samples cannot be joined on {text!r}: give key, json:NAME, sha256 or xxh3, with =COLUMN if needed",
            "" if colon or not kind else text,
        )
    return JoinOn(kind, "", column or kind)


def parse_set(texts: Iterable[str]) -> list[FieldToSet]:
    """Parse ``txt=caption`` and ``json:NAME=column``. Raises ValueError.

    >>> parse_set(["txt=caption", "json:a.b=c"])
    [FieldToSet(field='txt', name='', column='caption'), FieldToSet(field='json', name='a.b', column='c')]
    """
    found: list[FieldToSet] = []
    for text in texts:
        target, _, column = text.partition("=")
        field, colon, name = target.partition(":")
        if not (field and column) or bool(colon) != bool(name):
            raise ValueError(f"{text!r} is not of the form FIELD=COLUMN or json:NAME=COLUMN")
        if name and field.lower() != "json":
            raise ValueError(
                f"{text!r}: only json has values with names; give {field}=COLUMN or json:{name}=COLUMN"
            )
        if not _FIELD.fullmatch(field) or not field.isprintable() or field.startswith("__"):
            raise ValueError(f"{field!r} is not a field name")
        if field.lower().rpartition(".")[2] in IMAGE_FIELDS:
            raise ValueError(f"{text!r}: images stay as they are; set another field")
        found.append(FieldToSet(field.lower(), name, column))
    if not found:
        raise ValueError("nothing to set: give --set FIELD=COLUMN")
    whole = {each.field for each in found if not each.name}
    seen: set[tuple[str, str]] = set()
    for each in found:
        if (each.field, each.name) in seen or (each.name and each.field in whole):
            raise ValueError(f"{each.field}{':' * bool(each.name)}{each.name} is set twice")
        seen.add((each.field, each.name))
    return found


def join_text(value: object, kind: str) -> str | None:
    r"""Return a value as text for the comparison of rows and samples; None if it cannot be joined.

    A float with a whole value equals its digits: tables often turn integers with gaps into floats.

    >>> join_text(12.0, "json"), join_text("A0F", "sha256"), join_text(b"\xa0", "sha256"), join_text("", "key")
    ('12', 'a0f', 'a0', None)
    """
    if isinstance(value, bytes):
        value = value.hex() if kind in HASHES else value.decode("utf-8", "backslashreplace")
    elif isinstance(value, bool):
        value = "true" if value else "false"
    elif isinstance(value, float):
        value = (
            str(int(value)) if value.is_integer() else None if math.isnan(value) else repr(value)
        )
    elif isinstance(value, int):
        value = f"{value & (1 << 64) - 1:016x}" if kind == "xxh3" else str(value)
    if not isinstance(value, str) or not value:
        return None
    text: str = value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
    return text.lower() if kind in HASHES else text


def join_query(cell: str, kind_of_cell: str, kind: str) -> str:
    """Return the SQL for ``join_text`` of a type of DuckDB; "" if it is neither text nor an integer."""
    if kind_of_cell == "VARCHAR":
        return f"nullif({f'lower({cell})' if kind in HASHES else cell}, '')"
    if kind_of_cell not in INTEGERS:
        return ""
    whole = cell if kind_of_cell.startswith("U") else f"{cell}::BIGINT"
    return f"lpad(lower(to_hex({whole})), 16, '0')" if kind == "xxh3" else f"{cell}::VARCHAR"
