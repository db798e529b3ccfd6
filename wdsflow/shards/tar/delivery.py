"""What a stream reader gets when it reads the data of an entry, and where it stands afterwards."""

from collections.abc import Callable

from .sparse import Pieces
from .tar_entry import Entry

CUT = "unexpected end of data"
BACK_TO_START = "a negative size leads back to the start, which tarfile takes for the end"

Reaches = Callable[[int], bool]  # whether the archive has that many bytes


def deliver(entry: Entry, reaches: Reaches, length: Callable[[], int]) -> tuple[bool, int]:
    """Say whether webdataset gets the whole contents, and the offset at which reading stands then.

    ``length`` says how many bytes the archive has; it is asked only where ``reaches`` said no.

    webdataset reads files only; for other kinds nothing is read and nothing can be lost.
    """
    if entry.pieces is not None and entry.kind == "sparse":
        return _deliver_sparse(entry, entry.pieces, reaches, length)
    if entry.kind != "file" or entry.size <= 0:
        return True, entry.tell
    end = entry.data + entry.size
    return (True, end) if reaches(end) else (False, length())


def _deliver_sparse(entry: Entry, pieces: Pieces, reaches: Reaches, length: Callable[[], int]) -> tuple[bool, int]:
    position, stands, index = 0, entry.tell, 0
    layout = _layout(entry, pieces)
    patience = 4 * len(layout) + 1000  # unsorted maps send tarfile round in circles
    while position < entry.size:
        stored, start, stop, offset = layout[index]
        if not start <= position < stop:
            index = (index + 1) % len(layout)
            patience -= 1
            if patience < 0:
                return False, stands
            continue
        count = min(entry.size - position, stop - position)
        if stored:
            wanted = offset + position - start
            if wanted < stands:
                return False, stands
            if not reaches(wanted + count):
                return False, length()
            stands = wanted + count
        position += count
    return True, stands


def _layout(entry: Entry, pieces: Pieces) -> list[tuple[bool, int, int, int]]:
    """List data and holes in the order in which tarfile looks through them: (stored, start, stop, offset)."""
    layout = []
    last, offset = 0, entry.data
    for start, length in pieces:
        if start > last:
            layout.append((False, last, start, 0))
        layout.append((True, start, start + length, offset))
        offset += length
        last = start + length
    if last < entry.size:
        layout.append((False, last, entry.size, 0))
    return layout


def following(entry: Entry, stands: int, reaches: Reaches) -> str:
    """Say why tarfile cannot go on to the next header; empty if it can."""
    if entry.next == stands:
        return ""
    if entry.next == 0:
        return BACK_TO_START
    if not reaches(entry.next):
        return CUT
    return "a size sends the reader backwards" if entry.next <= stands else ""
