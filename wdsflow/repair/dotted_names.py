"""Base names with several dots: which dots belong to the key, and which to the field."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable

from wdsflow.media import media_kind
from wdsflow.shards.shard_names import IMAGE_FIELDS

# Readers end the key at the first dot of a base name. In ``img.v1.jpg`` and ``img.v1.txt`` that dot
# belongs to the key, in ``000.jpg``, ``000.txt`` and ``000.seg.png`` to the field. Only the names
# of neighbours show which it is.

IMAGES = frozenset(IMAGE_FIELDS)
_COMPRESSED = frozenset({"gz", "bz2", "xz", "zst"})
_PACKED = IMAGES | {
    "txt",
    "json",
    "cls",
    "npy",
    "npz",
    "pth",
    "cbor",
    "mp",
    "msg",
    "csv",
    "tsv",
    "xml",
    "tar",
}
_NUMBER = re.compile(r"\d{1,4}")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")

# Folder, base name without its extension.
Stem = tuple[str, str]


def split_base_name(base: str) -> tuple[str, str]:
    """Split a base name at its last dot, or at the one before it if the last part is a compression.

    >>> split_base_name("a.b.jpg"), split_base_name("a.txt.gz")
    (('a.b', 'jpg'), ('a', 'txt.gz'))
    """
    stem, _, extension = base.rpartition(".")
    if extension.lower() in _COMPRESSED:
        before, dot, inner = stem.rpartition(".")
        if dot and before and inner.lower() in _PACKED:
            return before, f"{inner}.{extension}"
    return stem, extension


class DottedNames:
    """How the base names of one shard split into key and field.

    A dotted stem is a field of the longest shorter stem that has members of its own (``000`` for
    ``000.seg``), unless it has an image and a caption itself. If there is none, stems that share
    their first part are fields of that part if each has one member, of different types
    (``000.input.jpg``, ``000.outputs.txt``), or if other first parts have exactly the same ones
    (``000.left.jpg``, ``000.right.jpg``). Numbers are fields next to a stem that has no image
    (``000.0.jpg``, ``000.txt``), or where one sample has several. All other dots belong to the key.
    """

    def __init__(self, bases: Iterable[tuple[str, str]]) -> None:
        # stem -> extensions
        self._types: dict[Stem, set[str]] = defaultdict(set)
        dotted: set[Stem] = set()
        for folder, base in bases:
            stem, extension = split_base_name(base)
            self._types[folder, stem].add(extension.lower())
            if "." in stem:
                dotted.add((folder, stem))
        self._numbered = self._count_numbered(dotted)
        self._as_fields = self._first_parts_of_fields(dotted)

    def _count_numbered(self, dotted: set[Stem]) -> Counter[Stem]:
        """Count the numbered files of each shorter stem."""
        numbered: Counter[Stem] = Counter()
        for folder, stem in dotted:
            first, _, rest = stem.rpartition(".")
            if _is_number(rest, self._types[folder, stem]):
                numbered[folder, first] += 1
        return numbered

    def _first_parts_of_fields(self, dotted: set[Stem]) -> set[Stem]:
        """Return the first parts whose dotted stems are fields of one sample.

        First parts that have members of their own are left out.
        """
        # first part -> the rest -> extensions
        groups: dict[Stem, dict[str, set[str]]] = defaultdict(dict)
        for folder, stem in dotted:
            first, _, rest = stem.partition(".")
            groups[folder, first][rest] = self._types[folder, stem]
        shapes = {
            first: _shape(group) for first, group in groups.items() if first not in self._types
        }
        frequency = Counter(shape for shape in shapes.values() if shape)
        as_fields = set[Stem]()
        for owner, shape in shapes.items():
            if shape is None:
                continue
            has_distinct_types = len({extension for _, extension in shape}) == len(shape)
            if frequency[shape] > 1 or has_distinct_types:
                as_fields.add(owner)
        return as_fields

    def split(self, folder: str, base: str) -> tuple[str, str]:
        """Return ``(key, field)`` of a base name that has a dot; the key may still have dots."""
        stem, extension = split_base_name(base)
        key, inner = self._resolve(folder, stem)
        return key, f"{inner}.{extension}" if inner else extension

    def _resolve(self, folder: str, stem: str) -> tuple[str, str]:
        """Return the key in a stem, and the part of the field before its extension."""
        shorter = stem.rpartition(".")[0]
        while shorter and (folder, shorter) not in self._types:
            shorter = shorter.rpartition(".")[0]
        if not shorter:
            first, _, rest = stem.partition(".")
            return (first, rest) if (folder, first) in self._as_fields else (stem, "")
        rest = stem[len(shorter) + 1 :]
        if not self._is_field(folder, stem, shorter, rest):
            return stem, ""
        key, inner = self._resolve(folder, shorter)
        return key, f"{inner}.{rest}" if inner else rest

    def _is_field(self, folder: str, stem: str, shorter: str, rest: str) -> bool:
        """Return whether a dotted stem is a field of a shorter one."""
        types = self._types[folder, stem]
        if types & IMAGES and "txt" in types:
            # an image and a caption: a sample of its own
            return False
        if _WORD.fullmatch(rest):
            return True
        if not _is_number(rest, types):
            return False
        return self._numbered[folder, shorter] > 1 or not self._types[folder, shorter] & IMAGES


def _is_number(rest: str, types: set[str]) -> bool:
    """Return whether a stem may be one of several files of a sample.

    It is a number, and its files are only images, audio or video.
    """
    if _NUMBER.fullmatch(rest) is None:
        return False
    return all(extension in IMAGES or media_kind(extension) for extension in types)


def _shape(group: dict[str, set[str]]) -> frozenset[tuple[str, str]] | None:
    """The fields that a group could be; None if it cannot be one sample."""
    if len(group) < 2:
        return None
    if any(len(types) > 1 for types in group.values()):
        return None
    if not all(_WORD.fullmatch(rest) for rest in group):
        return None
    return frozenset((rest, next(iter(types))) for rest, types in group.items())
