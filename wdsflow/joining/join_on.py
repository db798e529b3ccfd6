"""The join of samples and table, and the columns for fields."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from wdsflow.shards.shard_names import IMAGE_FIELDS

HASHES = ("sha256", "xxh3")
_FIELD = re.compile(r"[^/\s.][^/\s]*")


@dataclass(frozen=True)
class JoinOn:
    """What samples and table are joined on.

    ``kind``: "key", "json", "sha256" or "xxh3". ``name``: of the value in the json. ``column``: of
    the table.
    """

    kind: str
    name: str
    column: str

    def __str__(self) -> str:
        value = f"json:{self.name}" if self.kind == "json" else self.kind
        if self.column == (self.name or self.kind):
            return value
        return f"{value}={self.column}"


@dataclass(frozen=True)
class FieldToSet:
    """A field of samples that a column of the table sets.

    ``field``: its name, such as txt. ``name``: of the value inside it, "" for the whole field.
    ``column``: of the table.
    """

    field: str
    name: str
    column: str

    @property
    def location(self) -> str:
        """Where a sample gets the value, such as "json:NAME"."""
        return f"{self.field}:{self.name}" if self.name else self.field

    def __str__(self) -> str:
        return f"{self.location}={self.column}"


class WrongJoin(ValueError):
    """An invalid join; ``text``: a possible name of a value in the json, otherwise ""."""

    def __init__(self, message: str, text: str) -> None:
        super().__init__(message)
        self.text = text


def parse_on(text: str, *, hashes: bool = True) -> JoinOn:
    """Parse ``key``, ``json:url``, ``sha256`` or ``xxh3`` into a ``JoinOn``.

    Each may end with ``=COLUMN`` if the column has another name. Raises ValueError.

    ``hashes``: samples can be joined on hashes of their images.

    >>> parse_on("json:url=URL"), str(parse_on("key"))
    (JoinOn(kind='json', name='url', column='URL'), 'key')
    """
    value, _, column = text.partition("=")
    kind, colon, name = value.partition(":")
    if kind == "json" and name:
        return JoinOn("json", name, column or name)
    if kind in HASHES and not colon and not hashes:
        raise ValueError(
            f"samples cannot be joined on {text!r} while they are read; for hashes of images write new shards: wdsflow graft --help"
        )
    if colon or kind not in {"key", *HASHES}:
        values = "key, json:NAME, sha256 or xxh3" if hashes else "key or json:NAME"
        raise WrongJoin(
            f"samples cannot be joined on {text!r}: give {values}, with =COLUMN if needed",
            "" if colon or not kind else text,
        )
    return JoinOn(kind, "", column or kind)


def parse_set(texts: Iterable[str]) -> list[FieldToSet]:
    """Parse ``txt=caption`` and ``json:NAME=column``. Raises ValueError.

    >>> parse_set(["txt=caption", "json:a.b=c"])
    [FieldToSet(field='txt', name='', column='caption'), FieldToSet(field='json', name='a.b',
    column='c')]
    """
    fields: list[FieldToSet] = []
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
        fields.append(FieldToSet(field.lower(), name, column))
    if not fields:
        raise ValueError("nothing to set: give --set FIELD=COLUMN")
    _refuse_twice(fields)
    return fields


def _refuse_twice(fields: Iterable[FieldToSet]) -> None:
    """Raise ValueError if a value is set twice, by itself or with its whole field."""
    set_as_whole = {target.field for target in fields if not target.name}
    seen: set[tuple[str, str]] = set()
    for target in fields:
        location = target.field, target.name
        if location in seen or (target.name and target.field in set_as_whole):
            raise ValueError(f"{target.location} is set twice")
        seen.add(location)
