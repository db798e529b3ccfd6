"""Distinguishes the dots of a base name: those inside a key from those inside a field.

Readers end the key at the first dot. In ``img.v1.jpg`` and ``img.v1.txt`` that dot belongs to the key, in ``000.jpg``,
``000.txt`` and ``000.seg.png`` to the field. Only the names of neighbours show which it is.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable

from wdsflow.media.media_format import media_kind
from wdsflow.shards.field_names import IMAGE_FIELDS

IMAGES = frozenset(IMAGE_FIELDS)
_COMPRESSED = frozenset({"gz", "bz2", "xz", "zst"})
_PACKED = IMAGES | {"txt", "json", "cls", "npy", "npz", "pth", "cbor", "mp", "msg", "csv", "tsv", "xml", "tar"}
_NUMBER = re.compile(r"\d{1,4}")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")

Stem = tuple[str, str]  # folder, base name without its extension


class Dots:
    """How the base names of one shard split into key and field.

    A dotted stem is a field of the longest shorter stem that has members of its own (``000`` for ``000.seg``), unless
    it has an image and a caption itself. If there is none, stems that share their first part are fields of that part if
    each has one member, of different types (``000.input.jpg``, ``000.outputs.txt``), or if other first parts have just
    the same ones (``000.left.jpg``, ``000.right.jpg``). Numbers are fields next to a stem that has no image
    (``000.0.jpg``, ``000.txt``), or where one sample has several. All other dots belong to the key.
    """

    def __init__(self, bases: Iterable[tuple[str, str]]) -> None:
        self._members: dict[Stem, set[str]] = defaultdict(set)  # stem -> extensions
        dotted: set[Stem] = set()
        for folder, base in bases:
            stem, extension = cut(base)
            self._members[folder, stem].add(extension.lower())
            if "." in stem:
                dotted.add((folder, stem))
        self._numbered = Counter(
            (folder, first)
            for folder, stem in dotted
            for first, _, rest in [stem.rpartition(".")]
            if _is_number(rest, self._members[folder, stem])
        )
        self._groups: dict[Stem, dict[str, set[str]]] = defaultdict(dict)  # first part -> the rest -> extensions
        for folder, stem in dotted:
            first, _, rest = stem.partition(".")
            self._groups[folder, first][rest] = self._members[folder, stem]
        shapes = {first: _shape(group) for first, group in self._groups.items() if first not in self._members}
        often = Counter(shape for shape in shapes.values() if shape)
        self._as_fields = {first for first, shape in shapes.items() if shape and (often[shape] > 1 or _differ(shape))}

    def split(self, folder: str, base: str) -> tuple[str, str]:
        """Return ``(key, field)`` of a base name that has a dot; the key may still have dots."""
        stem, extension = cut(base)
        key, inner = self._resolve(folder, stem)
        return key, f"{inner}.{extension}" if inner else extension

    def _resolve(self, folder: str, stem: str) -> tuple[str, str]:
        shorter = stem.rpartition(".")[0]
        while shorter and (folder, shorter) not in self._members:
            shorter = shorter.rpartition(".")[0]
        if shorter:
            rest = stem[len(shorter) + 1 :]
            types = self._members[folder, stem]
            of_list = _is_number(rest, types) and (
                self._numbered[folder, shorter] > 1 or not self._members[folder, shorter] & IMAGES
            )
            if not (of_list or _WORD.fullmatch(rest)) or (types & IMAGES and "txt" in types):
                return stem, ""
            key, inner = self._resolve(folder, shorter)
            return key, f"{inner}.{rest}" if inner else rest
        first, _, rest = stem.partition(".")
        return (first, rest) if (folder, first) in self._as_fields else (stem, "")


def cut(base: str) -> tuple[str, str]:
    """Split a base name at its last dot, or at the one before it if the last part is a compression.

    >>> cut("a.b.jpg"), cut("a.txt.gz")
    (('a.b', 'jpg'), ('a', 'txt.gz'))
    """
    stem, _, extension = base.rpartition(".")
    if extension.lower() in _COMPRESSED:
        before, dot, inner = stem.rpartition(".")
        if dot and before and inner.lower() in _PACKED:
            return before, f"{inner}.{extension}"
    return stem, extension


def _is_number(rest: str, types: set[str]) -> bool:
    """Return whether a stem may be one of several files of a sample: a number, with an image, audio or video alone."""
    return _NUMBER.fullmatch(rest) is not None and all(each in IMAGES or media_kind(each) for each in types)


def _shape(group: dict[str, set[str]]) -> frozenset[tuple[str, str]] | None:
    """The fields that a group could be; None if it cannot be one sample."""
    if len(group) < 2 or any(len(types) > 1 for types in group.values()):
        return None
    if not all(_WORD.fullmatch(rest) for rest in group):
        return None
    return frozenset((rest, next(iter(types))) for rest, types in group.items())


def _differ(shape: frozenset[tuple[str, str]]) -> bool:
    return len({extension for _, extension in shape}) == len(shape)
