"""Members as a walk over a tar delivers them, and how their names become keys and fields."""

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from .plain_entries import Row
from .tar_header import padded

# Offset, bytes of the tar.
Piece = tuple[int, bytes]
StopKind = Literal["end", "eof", "silent", "error", "unreadable"]
GapKind = Literal["", "archive", "damage"]

# Makes a named tuple of a tuple: twice as fast as its constructor, which is written in Python.
_new = tuple.__new__
# WebDataset's ``base_plus_ext``: the key is the path up to the first dot of its last component, the
# field is all that follows. Hugging Face datasets, Ray Data and Energon use the same rule, corner
# cases included ("d/._a.jpg": key "d/", field "_a.jpg").
_SPLIT = re.compile(r"^((?:.*/|)[^.]+)[.]([^/]*)$")
_META = re.compile(r"__[^/]*__($|/)")
# Names such as ``000000/.jpg`` are samples of a writer that joined folder and extension;
# ``000000/.DS_Store`` is none.
_PLAIN_FIELDS = frozenset(
    "jpg jpeg png webp gif bmp tif tiff jp2 avif txt caption text transcript json jsn cls npy npz mp4 wav mp3 flac".split()
)


def split_name(name: str) -> tuple[str, str] | tuple[None, None]:
    """Split a member name into ``(key, field)``; ``(None, None)`` where readers skip the member.

    >>> split_name("photos/001.seg.png")
    ('photos/001', 'seg.png')
    >>> split_name("photos/._001.jpg")
    ('photos/', '_001.jpg')
    >>> split_name("README")
    (None, None)
    """
    match = _SPLIT.match(name)
    return (match[1], match[2]) if match else (None, None)


def is_meta(name: str) -> bool:
    """Return whether webdataset skips the member as metadata.

    Its name is ``__name__``, or it is in a folder with such a name.

    >>> is_meta("__info__"), is_meta("__MACOSX/a.jpg"), is_meta("__keys__/a.jpg")
    (True, False, True)
    """
    if _META.match(name):
        return True
    return "/" not in name and name.startswith("__") and name.endswith("__")


def is_junk(key: str, suffix: str) -> bool:
    """Return whether a member belongs to no sample: macOS metadata, or a dot-file in a folder.

    >>> is_junk("photos/", "_001.jpg"), is_junk("__MACOSX/photos/", "_1.jpg"), is_junk("photos/001", "jpg")
    (True, True, False)
    >>> is_junk("000000/", "jpg"), is_junk("000000/", "DS_Store")
    (False, True)
    """
    if "__MACOSX/" in key and "/__MACOSX/" in f"/{key}":
        return True
    return key.endswith("/") and suffix.lower() not in _PLAIN_FIELDS


def is_keyed_by_folder(name: str) -> bool:
    """Return whether a name is only a folder and an extension.

    The folder is then the key of a sample.

    >>> is_keyed_by_folder("000000/.jpg"), is_keyed_by_folder("000000/.DS_Store"), is_keyed_by_folder(".jpg")
    (True, False, False)
    """
    folders, _, base = name.rpartition("/")
    return bool(folders) and base[:1] == "." and base[1:].lower() in _PLAIN_FIELDS


def why_junk(name: str) -> str:
    """Return why a file belongs to no sample: it is of macOS, or hidden; "" if neither.

    >>> why_junk("__MACOSX/._a.jpg"), why_junk("d/._a.jpg"), why_junk(".DS_Store"), why_junk("d/a.jpg")
    ('macosx', 'appledouble', 'hidden', '')
    >>> why_junk("d/.jpg"), why_junk(".jpg")
    ('', 'hidden')
    """
    folders, _, base = name.rpartition("/")
    if "__MACOSX" in folders.split("/"):
        return "macosx"
    if is_keyed_by_folder(name):
        return ""
    if base.startswith("._"):
        return "appledouble"
    return "hidden" if base.startswith(".") else ""


def split_as_webdataset(name: str) -> tuple[str, str] | None:
    """Split a name as webdataset does; None if it skips the member.

    >>> split_as_webdataset("photos/001.seg.png"), split_as_webdataset("README"), split_as_webdataset("__info__")
    (('photos/001', 'seg.png'), None, None)
    """
    if is_meta(name):
        return None
    key, suffix = split_name(name)
    return None if key is None or suffix is None else (key, suffix)


class Member(NamedTuple):
    """One member as readers get it; a ``Row`` is the same as a plain tuple."""

    # UTF-8, other bytes as surrogates.
    name: str
    # Bytes.
    size: int
    # Offset of the contents in the uncompressed tar.
    data: int
    # Offset of its first header, extended headers included.
    header: int
    # "file", "sparse", "link", "directory", "special".
    kind: str

    @property
    def end(self) -> int:
        """Offset after the contents and their padding."""
        return self.data + (padded(self.size) if self.kind == "file" else 0)


class MemberBatch(NamedTuple):
    """Some neighbouring members, and the piece of the tar that was read to find them."""

    rows: list[Row]
    window: bytes
    # Offset of the window.
    base: int
    # After the place where Python's tarfile stops.
    is_past_stop: bool
    # All bytes that were read, in order, if the walk keeps them.
    pieces: Sequence[Piece] = ()
    # Between its first row and the row before: the end of a whole archive, or damage.
    gap_before: GapKind = ""

    @property
    def members(self) -> list[Member]:
        """The rows with names."""
        return [_new(Member, row) for row in self.rows]


class PieceReader:
    """Finds bytes in the pieces of a tar that were read.

    It is fastest if requests mostly move forward.
    """

    __slots__ = ("_at", "_base", "_window", "pieces")

    def __init__(self) -> None:
        self.take(((0, b""),))

    def take(self, pieces: Sequence[Piece]) -> None:
        """Replace the pieces.

        They are sorted and overlap at most by the repeated part of the last one.
        """
        self.pieces = pieces
        self._at = 0
        self._base, self._window = pieces[0]

    def peek(self, offset: int, most: int) -> bytes:
        """Return the bytes from ``offset`` on that have been read, at most ``most``; maybe none."""
        at = offset - self._base
        if not 0 <= at < len(self._window):
            self._switch_to_piece(offset)
            at = offset - self._base
            if at < 0:
                return b""
        return self._window[at : at + most]

    def _switch_to_piece(self, offset: int) -> None:
        """Switch to the piece that may hold a byte."""
        pieces, at = self.pieces, self._at
        while at + 1 < len(pieces) and pieces[at + 1][0] <= offset:
            at += 1
        while at and pieces[at][0] > offset:
            at -= 1
        self._at = at
        self._base, self._window = pieces[at]


class Stop(NamedTuple):
    """How the archive ends for Python's tarfile in stream mode, which all readers use.

    ``kind``: "end" (zero block), "eof" (ends at a member's border without a zero block), "silent"
    (damaged or cut header: tarfile takes it for the end), "error" (cut inside data: ReadError),
    "unreadable" (ReadError or OSError at the first byte).
    """

    kind: StopKind = "end"
    offset: int = 0
    detail: str = ""


class Occurrences:
    """How often something was seen, and where first."""

    __slots__ = ("count", "detail", "name", "offset")

    def __init__(self, offset: int, name: str | None, detail: str) -> None:
        self.count = 0
        self.offset = offset
        self.name = name
        self.detail = detail
