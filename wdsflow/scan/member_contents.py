"""The contents of one member: a function that reads parts of them, and the tallies of its shard."""

from collections.abc import Callable

from .evidence import Tally

# Offset within the contents, number of bytes.
Read = Callable[[int, int], bytes]

# Larger contents are not decoded: a field must fit into memory several times.
MOST_FIELD = 256 << 20


def read_all(size: int, read: Read) -> bytes | None:
    """Return the contents of a member; None if they are too large, or cannot be read completely."""
    if size > MOST_FIELD:
        return None
    data = read(0, size)
    return data if len(data) == size else None


class MemberNotes:
    """Counts facts about member contents in the tallies of a shard, one member at a time."""

    def __init__(self, tallies: dict[str, Tally]) -> None:
        self.tallies = tallies
        # Of the current member.
        self.key = ""
        self.offset = 0

    def add(self, names: tuple[str, ...], detail: str = "") -> None:
        """Count the current member under each of the names."""
        for name in names:
            self.tallies.setdefault(name, Tally()).add(self.key, self.offset, detail)
