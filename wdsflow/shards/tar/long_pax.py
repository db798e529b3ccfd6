"""Extended headers that are too long to be held: what matters of them, read piece by piece."""

from collections.abc import Iterator

from .pax_records import LENGTH, LIMIT, RECORD, TIMES, WANTED, RefusedRecord, integer, is_strict
from .tar_header import BadHeader, Read

_STEP = 64 << 10
_LONGEST = 256 << 10  # bytes of a keyword
_MOST = 10_000_000  # records
_PIECES = frozenset((b"GNU.sparse.offset", b"GNU.sparse.numbytes"))  # of a map; each counts
_MOST_PIECES = 1 << 19

Record = tuple[bytes, int, int]  # keyword, and where its value starts and ends


def condensed(read: Read, at: int, length: int) -> bytes:
    """Return a short PAX header that tells tarfile the same as the one of ``length`` bytes at ``at``.

    Values that change nothing for us are left out. Raises ``BadHeader`` if tarfile does, and ``RefusedRecord``.
    """
    window = _Window(read, at, length)
    kept: dict[bytes, bytes] = {}
    pieces: list[tuple[bytes, bytes]] = []
    held = 0
    for count, (keyword, start, end) in enumerate(_strict(window) if is_strict() else _loose(window)):
        if count > _MOST:
            raise RefusedRecord(f"an extended header has more than {_MOST:,} records")
        name = keyword.decode("utf-8", "surrogateescape")
        if keyword not in _PIECES and name not in WANTED and name != "hdrcharset":
            kept.setdefault(keyword if name in TIMES else b"comment", b"")
            continue
        held += max(0, end - start)
        if held > LIMIT or len(pieces) > _MOST_PIECES:
            raise RefusedRecord(f"an extended header has more than {LIMIT:,} bytes that matter")
        value = window.piece(start, max(0, end - start))
        if keyword in _PIECES:
            pieces.append((keyword, value))
        elif name != "hdrcharset" or keyword not in kept:  # of charsets the first counts
            kept[keyword] = value
    return b"".join(_record(keyword, value) for keyword, value in [*kept.items(), *pieces])


def first_name(read: Read, at: int, length: int) -> bytes:
    """Return the name in a GNU header of ``length`` bytes at ``at``. Raises ``RefusedRecord``."""
    window = _Window(read, at, length)
    end = window.find(b"\0", 0, min(length, LIMIT))
    if end < 0 and length > LIMIT:
        raise RefusedRecord(f"a member's name has more than {LIMIT:,} bytes")
    return read(at, length if end < 0 else end)


class _Window:
    """Bytes of a header by their position in it, read forward."""

    def __init__(self, read: Read, start: int, length: int) -> None:
        self._read, self._start, self.length = read, start, length
        self._at, self._held = 0, b""

    def piece(self, position: int, size: int) -> bytes:
        """Return bytes; fewer at the end."""
        size = min(size, self.length - position)
        at = position - self._at
        if at < 0 or at + size > len(self._held):
            self._held = self._read(self._start + position, min(max(size, _STEP), self.length - position))
            self._at, at = position, 0
        return self._held[at : at + size] if size > 0 else b""

    def find(self, byte: bytes, position: int, stop: int) -> int:
        """Return where a byte is first, -1 where it is not."""
        while position < stop and (data := self.piece(position, min(_STEP, stop - position))):
            if (found := data.find(byte)) >= 0:
                return position + found
            position += len(data)
        return -1


def _strict(window: _Window) -> Iterator[Record]:
    position = 0
    while window.piece(position, 1) not in (b"", b"\0"):
        match = LENGTH.match(window.piece(position, 32))
        end = position + int(match[1]) - 1 if match else -1
        start = position + match.end() if match else position
        equals = window.find(b"=", start, end)
        if end - position < 4 or equals <= start:
            raise BadHeader("an extended header has a malformed record")
        yield window.piece(start, min(64, equals - start)), equals + 1, end
        if window.piece(end, 1) != b"\n":
            raise BadHeader("an extended header has a malformed record")
        position = end + 1


def _loose(window: _Window) -> Iterator[Record]:
    position = 0
    effort = 4 * window.length + (1 << 20)  # overlapping records would cost quadratic time
    while True:
        match = RECORD.match(window.piece(position, 1024))
        if match is None:
            start = window.piece(position, _LONGEST)
            match = RECORD.match(start)
            if match is None and len(start) == _LONGEST and b"=" not in start and start[:1].isdigit():
                raise RefusedRecord(f"an extended header has a keyword of more than {_LONGEST:,} bytes")
            if match is None:
                return
        length = integer(match[1])
        if length == 0:
            raise BadHeader("an extended header has a record of length 0")
        effort -= match.end() + min(length, window.length)
        if effort < 0:
            raise RefusedRecord("an extended header has overlapping records")
        yield match[2][:64], position + match.end(), position + length - 1
        position += length


def _record(keyword: bytes, value: bytes) -> bytes:
    rest = b" " + keyword + b"=" + value + b"\n"
    length = len(rest) + 1
    while len(rest) + len(str(length)) != length:
        length = len(rest) + len(str(length))
    return str(length).encode() + rest
