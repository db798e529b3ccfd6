"""What a stream reader gets when it reads the data of an entry, and where it stands afterwards."""

from collections.abc import Callable

from .tar_entry import Entry

CUT = "unexpected end of data"
BACK_TO_START = "a negative size leads back to the start, which tarfile takes for the end"

Reaches = Callable[[int], bool]  # whether the archive has that many bytes


def deliver(entry: Entry, reaches: Reaches, length: Callable[[], int]) -> tuple[bool, int]:
    """Say whether webdataset gets the whole contents, and the offset at which reading stands then.

    ``length`` says how many bytes the archive has; it is asked only where ``reaches`` said no.

    webdataset reads files only; for other kinds nothing is read and nothing can be lost.
    """
    if entry.kind == "sparse":  # its contents are not looked at
        return (True, entry.tell) if reaches(entry.next) else (False, length())
    if entry.kind != "file" or entry.size <= 0:
        return True, entry.tell
    end = entry.data + entry.size
    return (True, end) if reaches(end) else (False, length())


def following(entry: Entry, stands: int, reaches: Reaches) -> str:
    """Say why tarfile cannot go on to the next header; empty if it can."""
    if entry.next == stands:
        return ""
    if entry.next == 0:
        return BACK_TO_START
    if not reaches(entry.next):
        return CUT
    return "a size sends the reader backwards" if entry.next <= stands else ""
