"""The rows of text tables: CSV and JSON lines, compressed or not.

Each fault is reported with its line.
"""

import csv
import io
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from wdsflow.shards.caption_field import parse_json
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import Source, SourceError
from wdsflow.shards.source.opening import open_source
from wdsflow.text.shell import quote_path
from wdsflow.text.words import how_many

from .errors import TableError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_KINDS = {
    "parquet": "parquet",
    "pq": "parquet",
    "csv": "csv",
    "tsv": "tsv",
    "jsonl": "jsonl",
    "ndjson": "jsonl",
}
_PACKED = re.compile(r"\.(gz|bz2|xz|zst|zstd)$", re.IGNORECASE)
# Bytes of a line of JSON, or characters of a field of CSV.
_LONGEST = 256 << 20
# orjson makes floats of larger ones.
_LONG_INTEGER = re.compile(rb"[0-9]{19}")
# Characters of an array that are read at a time.
_STEP = 1 << 20
_BLANKS = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()
# In place of an element, at the end of an array.
_END = object()


def unpacked_name(name: str) -> str:
    """Return the name of a file without the ending of a compression.

    >>> unpacked_name("a.json.GZ"), unpacked_name("a.json")
    ('a.json', 'a.json')
    """
    return _PACKED.sub("", name)


def kind_of(path: Path) -> str | None:
    """Return the kind of a table by its name, None if it is not a table.

    >>> kind_of(Path("a.csv.gz")), kind_of(Path("b.NDJSON")), kind_of(Path("c.txt"))
    ('csv', 'jsonl', None)
    """
    plain = unpacked_name(path.name)
    kind = _KINDS.get(plain.rpartition(".")[2].lower())
    return None if kind == "parquet" and plain != path.name else kind


def json_objects(path: Path | str) -> Iterator[tuple[dict[str, object], int]]:
    """Yield the objects of JSON lines, and their sizes in bytes.

    ``path`` may be a url. Raises TableError.
    """
    with _opened(path) as stream:
        number = 0
        while line := stream.readline(_LONGEST + 1):
            number += 1
            if len(line) > _LONGEST:
                raise TableError(f"{path}, line {number:,} has more than {_LONGEST >> 20} MiB")
            text = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
            if not text or text.isspace():
                continue
            try:
                row = json.loads(text) if _LONG_INTEGER.search(text) else parse_json(text)
            except (ValueError, RecursionError) as error:
                raise TableError(f"{path}, line {number:,} is not JSON: {error}") from None
            if not isinstance(row, dict):
                raise TableError(f"{path}, line {number:,} is not an object of JSON")
            yield row, len(line)


def csv_cells(path: Path | str, kind: str) -> Iterator[tuple[list[str], int]]:
    """Yield the rows of a CSV file, the names first, and their sizes. Raises TableError."""
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST))
    with _opened(path) as stream:
        # Invalid UTF-8 becomes lone surrogates: such a value is reported when it is used.
        text = io.TextIOWrapper(stream, "utf-8-sig", errors="surrogateescape", newline="")
        rows = csv.reader(text, delimiter="\t" if kind == "tsv" else ",", strict=True)
        width = 0
        try:
            for row in rows:
                width = width or len(row)
                if row and len(row) != width:
                    found = f"{how_many(len(row), 'field')} instead of {width:,}"
                    raise _csv_error(
                        path, rows.line_num, f" has {found}: is a quote or a comma missing?"
                    )
                if row:
                    yield row, sum(map(len, row))
        except csv.Error as error:
            raise _csv_error(path, rows.line_num, f": {error}: is a quote missing?") from None


def _csv_error(path: Path | str, line: int, what: str) -> TableError:
    look = (
        [] if _PACKED.search(str(path)) else [f"to see it: sed -n {line}p {quote_path(str(path))}"]
    )
    return TableError(f"{path}, line {line:,}{what}", *look)


@contextmanager
def _opened(path: Path | str) -> Iterator[io.BufferedReader]:
    """Open a text file, decompressed if necessary.

    Raises TableError, also at the end of the block if the file is truncated.
    """
    try:
        source = open_source(path if isinstance(path, Shard) else Shard.file(str(path)))
    except SourceError as error:
        raise TableError(f"{path} cannot be read: {error}") from None
    with source:
        yield io.BufferedReader(_Stream(source, path), 1 << 20)
        if source.damage:
            raise TableError(f"{path} is damaged: {source.damage}")


class _Stream(io.RawIOBase):
    """A source as a stream."""

    def __init__(self, source: Source, path: Path | str) -> None:
        self._source, self._path, self._at = source, path, 0

    def readable(self) -> bool:
        """Return true."""
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        """Fill a buffer; returns 0 at the end. Raises TableError."""
        try:
            room = memoryview(buffer)
            data = self._source.read_at(self._at, len(room))
            if not data and self._source.continue_past_end():
                data = self._source.read_at(self._at, len(room))
        except SourceError as error:
            raise TableError(f"{self._path} cannot be read: {error}") from None
        room[: len(data)] = data
        self._at += len(data)
        return len(data)


def array_objects(path: Path | str) -> Iterator[dict[str, object]]:
    """Yield the objects of one JSON array, without holding all of it in memory.

    LLaVA's files have this form. Raises TableError.
    """
    with _opened(path) as stream:
        text = io.TextIOWrapper(stream, "utf-8-sig", errors="surrogateescape")
        held, at, number = "", 0, 0
        while True:
            try:
                element = _element(held, at, number)
            except (ValueError, RecursionError) as error:
                more = text.read(max(_STEP, len(held) - at))
                if not more or len(held) - at > _LONGEST:
                    fault = getattr(error, "msg", str(error))
                    raise TableError(f"{path}, row {number + 1:,} is not JSON: {fault}") from None
                held, at = held[at:] + more, 0
                continue
            row, at = element
            if row is _END:
                break
            number += 1
            if not isinstance(row, dict):
                raise TableError(f"{path}, row {number:,} is not an object of JSON")
            yield row
        after = held[at:] or text.read(_STEP)
        while after:
            if after.strip(" \t\r\n"):
                raise TableError(
                    f"{path}: more follows the end of its array, which has {how_many(number, 'row')}"
                )
            after = text.read(_STEP)


def _element(text: str, at: int, number: int) -> tuple[object, int]:
    """Return the next element of an array, ``_END`` after the last one, and where it ends.

    Raises ValueError if the text ends before, or is not JSON.
    """
    at = _skip_blanks(text, at)
    if number and text.startswith("]", at):
        return _END, at + 1
    if not text.startswith("," if number else "[", at):
        raise ValueError("a comma is missing" if at < len(text) else "the file ends early")
    at = _skip_blanks(text, at + 1)
    if not number and text.startswith("]", at):
        return _END, at + 1
    return _DECODER.raw_decode(text, at)


def _skip_blanks(text: str, at: int) -> int:
    found = _BLANKS.match(text, at)
    return found.end() if found else at
