"""A sample with new members: ranges of its tar, and bytes of replaced and added members."""

from collections.abc import Sequence

from wdsflow.shards.source.base import Piece
from wdsflow.shards.tar.plain_entries import Row

Pieces = list[Piece]
NewMember = tuple[Row | None, bytes]
"""The member that is replaced, None if the new one is added; and the bytes of the new one."""


def member_name(row: Row | None, key: str, field: str) -> str:
    """Return the name of a member: that of the one that it replaces, otherwise a new one."""
    return f"{key}.{field}" if row is None else row[0]


def merged_pieces(start: int, end: int, new_members: Sequence[NewMember]) -> Pieces:
    """Return the pieces of a sample with new members, from its first byte to its last."""
    replaced: list[tuple[int, int, bytes]] = []
    added: list[bytes] = []
    for row, data in new_members:
        if row is None:
            added.append(data)
        else:
            _, size, offset, header, _ = row
            # The contents fill blocks of 512 bytes.
            replaced.append((header, offset + (size + 511 & -512), data))
    replaced.sort()
    pieces: Pieces = []
    for begin, stop, data in replaced:
        if begin > start:
            pieces.append((start, begin))
        pieces.append(data)
        start = stop
    if end > start:
        pieces.append((start, end))
    return pieces + added
