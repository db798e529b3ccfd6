"""The maps of sparse members: where in the file the bytes belong that are stored in the tar."""

import re
from itertools import islice

from .pax_records import RefusedRecord, integer, is_strict, records
from .tar_header import BLOCK, BadHeader, Read, number

Pieces = list[tuple[int, int]]  # (where in the file, how many bytes)

MAX_PIECES = 200_000  # of one file; a bound on memory

_OFFSET = re.compile(rb"(?<=\d) GNU.sparse.offset=(\d+)\n")
_NUMBYTES = re.compile(rb"(?<=\d) GNU.sparse.numbytes=(\d+)\n")


def is_sparse(values: dict[str, str]) -> bool:
    """Return whether tarfile takes the member's map from these records, or from after the header."""
    return (
        "GNU.sparse.map" in values
        or "GNU.sparse.size" in values
        or (values.get("GNU.sparse.major") == "1" and values.get("GNU.sparse.minor") == "0")
    )


def sparse_map(values: dict[str, str], body: bytes, read: Read, at: int) -> tuple[Pieces, int | None]:
    """Return the map of a sparse member, and where it ends if it is before the data, at ``at``.

    Raises ``BadHeader`` and ``RefusedRecord``.
    """
    if "GNU.sparse.map" in values:  # format 0.1
        if values["GNU.sparse.map"].count(",") > 2 * MAX_PIECES:
            raise RefusedRecord("the map of a sparse member is too long")
        numbers = [integer(digits) for digits in values["GNU.sparse.map"].split(",")]
        return _pair(numbers[::2], numbers[1::2]), None
    if "GNU.sparse.size" in values:  # format 0.0
        return _map_in_records(body), None
    return _map_before_data(read, at)  # format 1.0


def _pair(offsets: list[int], sizes: list[int]) -> Pieces:
    pieces = list(zip(offsets, sizes, strict=False))
    if len(pieces) > MAX_PIECES:
        raise RefusedRecord("the map of a sparse member is too long")
    return pieces


def _map_in_records(body: bytes) -> Pieces:
    most = MAX_PIECES + 1
    if not is_strict():
        offsets = [integer(match[1]) for match in islice(_OFFSET.finditer(body), most)]
        sizes = [integer(match[1]) for match in islice(_NUMBYTES.finditer(body), most)]
        return _pair(offsets, sizes)
    found: dict[bytes, list[int]] = {b"GNU.sparse.offset": [], b"GNU.sparse.numbytes": []}
    for keyword, start, end in records(body):
        numbers = found.get(keyword)
        if numbers is not None and len(numbers) < most:
            try:
                numbers.append(int(body[start:end].decode()))
            except ValueError:
                raise BadHeader("the map of a sparse member is not a list of numbers") from None
    return _pair(*found.values())


def _map_before_data(read: Read, at: int) -> tuple[Pieces, int]:
    buffer = b""
    numbers: list[int] = []
    wanted = 1
    while len(numbers) < wanted:
        if b"\n" not in buffer:
            more = read(at, BLOCK)
            at += len(more)
            buffer += more
        line, newline, buffer = buffer.partition(b"\n")
        if not newline or len(numbers) > 2 * MAX_PIECES:
            raise RefusedRecord("the map of a sparse member is damaged")
        numbers.append(integer(line))
        if len(numbers) == 1:
            wanted = 1 + 2 * numbers[0]
    return _pair(numbers[1::2], numbers[2::2]), at


def more_pieces(block: bytes, pieces: Pieces) -> bool:
    """Add what one further block of an old GNU map holds; tell whether there is another.

    Raises ``BadHeader`` and ``RefusedRecord``.
    """
    if len(pieces) > MAX_PIECES:
        raise RefusedRecord("the map of a sparse member is too long")
    try:
        for at in range(0, 504, 24):
            where, length = number(block[at : at + 12]), number(block[at + 12 : at + 24])
            if where and length:
                pieces.append((where, length))
        return bool(block[504])
    except IndexError:
        raise RefusedRecord("the map of a sparse member is cut") from None
