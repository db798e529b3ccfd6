"""A value of the table as it is stored and written: its kind, and the bytes that a member gets."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TEXT, BYTES, JSON, UNUSABLE = "text", "bytes", "json", "unusable"
KINDS = (TEXT, BYTES, JSON, UNUSABLE)
AT_ONCE = 4096  # lines that a reader holds

StoredValue = tuple[str, bytes | None]
"""The kind, and the bytes: text in UTF-8, bytes as they are, JSON, or the reason why a value is unusable. None: null."""

NULL_VALUE: StoredValue = (JSON, None)
_NOT_UTF8: StoredValue = (UNUSABLE, b"text that UTF-8 cannot hold")
_NOT_JSON: StoredValue = (UNUSABLE, b"a value that JSON cannot hold")


def stored_value(value: object) -> StoredValue:
    r"""Return a value as it is stored. NaN and infinities are null; dates, decimals and the like are text.

    >>> stored_value("é"), stored_value([1, None]), stored_value(float("nan"))
    (('text', b'\xc3\xa9'), ('json', b'[1, null]'), ('json', None))
    """
    try:
        if isinstance(value, str):
            return TEXT, value.encode()
        if value is None or (isinstance(value, float) and not math.isfinite(value)):
            return NULL_VALUE
        if isinstance(value, bytes):
            return BYTES, value
        if type(value) in {int, float}:
            return JSON, repr(value).encode()
        if type(value) in {bool, list, dict}:
            return JSON, _json(value).encode()
        return TEXT, _text(value).encode()
    except UnicodeEncodeError:
        return _NOT_UTF8
    except (TypeError, ValueError, RecursionError):
        return _NOT_JSON


def json_of(value: StoredValue) -> str:
    """Return a value that is text or JSON as JSON."""
    kind, data = value
    text = (data or b"").decode()
    return json.dumps(text, ensure_ascii=False) if kind == TEXT else text


@dataclass
class Lines:
    """Rows in lines without long values: a row with one has several, which follow each other.

    Attributes:
        rows: of each line, the place of its row.
        starts: the first byte of each value that is in the line.
        rests: how many lines of its row follow.
    """

    rows: "NDArray[np.int64]"
    starts: "NDArray[np.int64]"
    rests: "NDArray[np.int64]"
    longest: int

    @staticmethod
    def of(columns: Sequence[Sequence[bytes | None]], longest: int) -> "Lines":
        """Return the lines of rows with these values. ``longest``: bytes of a value in one line."""
        import numpy as np

        sizes = [[len(data or b"") for data in column] for column in columns]
        counts = np.maximum(-(-np.max(sizes, axis=0) // longest), 1)
        rows = np.repeat(np.arange(len(counts)), counts)
        parts = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        return Lines(rows, parts * longest, counts[rows] - parts - 1, longest)

    def parts(self, column: Sequence[bytes | None]) -> list[bytes | None]:
        """Return the part of a value that is in each line."""
        parts: list[bytes | None] = []
        for row, start in zip(self.rows.tolist(), self.starts.tolist(), strict=True):
            data = column[row]
            parts.append(None if data is None else data[start : start + self.longest])
        return parts

    def repeated(self, column: Sequence[str]) -> list[str]:
        """Return the value of a row in each of its lines."""
        return [column[row] for row in self.rows.tolist()]

    def at_end(self, column: Sequence[str | None]) -> list[str | None]:
        """Return the value of a row in the last of its lines, and None in the others."""
        return [
            None if rest else column[row] for row, rest in zip(self.rows.tolist(), self.rests.tolist(), strict=True)
        ]


def read_rows(path: Path) -> Iterator[Sequence[StoredValue]]:
    """Yield the values of the rows in a file of lines: ``rest`` of each line, then kind and data of each value."""
    from pyarrow.parquet import ParquetFile

    parts: list[Sequence[StoredValue]] = []
    with ParquetFile(path) as file:
        for batch in file.iter_batches(AT_ONCE, use_threads=False):
            rests, *cells = (column.to_pylist() for column in batch.columns)
            columns = [zip(kinds, data, strict=True) for kinds, data in zip(cells[::2], cells[1::2], strict=True)]
            for rest, values in zip(rests, zip(*columns, strict=True), strict=True):
                parts.append(values)
                if not rest:
                    yield values if len(parts) == 1 else [_whole(column) for column in zip(*parts, strict=True)]
                    parts = []


def _whole(parts: Sequence[StoredValue]) -> StoredValue:
    kind, first = parts[0]
    return kind, None if first is None else b"".join(data or b"" for _, data in parts)


def _json(value: object) -> str:
    text = _ENCODER.encode(value)
    if "NaN" not in text and "Infinity" not in text:
        return text
    # JSON has no such numbers: inside lists and objects they become null, like a value of their own.
    return json.dumps(json.loads(text, parse_constant=lambda _: None), ensure_ascii=False)


def _text(value: object) -> str:
    """Return dates, decimals and the like as text. Raises TypeError for bytes."""
    if isinstance(value, (bytes, bytearray)):
        raise TypeError
    return value.isoformat() if isinstance(value, (date, time)) else str(value)


_ENCODER = json.JSONEncoder(ensure_ascii=False, default=_text)
