"""Renames members so that every reader splits the names into the same key and field."""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from wdsflow.media import media_kind
from wdsflow.shards.shard_names import IMAGE_FIELDS
from wdsflow.shards.tar.members import is_keyed_by_folder, is_meta

# Readers end the key at the first dot of a base name. In ``img.v1.jpg`` and ``img.v1.txt`` that dot belongs to the key, in ``000.jpg``,
# ``000.txt`` and ``000.seg.png`` to the field. Only the names of neighbours show which it is.

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
    each has one member, of different types (``000.input.jpg``, ``000.outputs.txt``), or if other first parts have
    exactly the same ones (``000.left.jpg``, ``000.right.jpg``). Numbers are fields next to a stem that has no image
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
        self._as_fields = {
            first
            for first, shape in shapes.items()
            if shape and (often[shape] > 1 or len({extension for _, extension in shape}) == len(shape))
        }

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


def _join_folders(paths: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the paths, as folder and base name, without the folder level that only separates fields.

    Sibling folders are joined if no two of them have a field in common and each shares at least half of its keys with
    the others: the last level of a path is tried first, then the first one.
    """
    while moved := _moves(paths, -1) or _moves(paths, 0):
        paths = [(moved.get(folder, folder), base) for folder, base in paths]
    return paths


def _moves(paths: list[tuple[str, str]], level: int) -> dict[str, str]:
    """Map folders to their names without one level."""
    folders = {folder for folder, _ in paths}
    if len(folders) < 2:
        return {}
    groups: dict[str, set[str]] = defaultdict(set)
    for folder in folders:
        if folder:
            levels = folder.split("/")
            del levels[level]
            groups["/".join(levels)].add(folder)
    for target, group in groups.items():
        if target in folders:
            group.add(target)
    wanted = {folder for group in groups.values() if len(group) > 1 for folder in group}
    fields: dict[str, set[str]] = defaultdict(set)
    keys: dict[str, set[str]] = defaultdict(set)
    for folder, base in paths:
        if folder in wanted:
            fields[folder].add(cut(base)[1].lower())
            keys[folder].add(base.partition(".")[0])
    moves: dict[str, str] = {}
    for target, group in groups.items():
        if len(group) > 1 and not group & moves.keys() and _are_parts(group, fields, keys):
            moves.update({folder: target for folder in group if folder != target})
    return moves


def _are_parts(group: set[str], fields: dict[str, set[str]], keys: dict[str, set[str]]) -> bool:
    if len(set().union(*(fields[folder] for folder in group))) < sum(len(fields[folder]) for folder in group):
        return False
    for folder in group:
        others = set().union(*(keys[other] for other in group if other != folder))
        if 2 * len(keys[folder] & others) < len(keys[folder]):
            return False
    return True


_SYSTEM = frozenset({".DS_Store", "Thumbs.db", "desktop.ini"})
_PAPERS = frozenset({"readme", "license", "licence", "copying", "notice", "changelog", "nshards"})
_PAPER_TYPES = frozenset({"md", "txt", "rst", "html"})
_UNSAFE = frozenset({"Cc", "Cs", "Zl", "Zp"})  # controls, bytes that are not UTF-8, line separators
_PLAIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9 _-]*)\.[a-z0-9]+")
_ROUNDS = 8


class NamedSample(NamedTuple):
    """The identity of a sample before its key is made safe."""

    origin: int
    folder: str
    key: str

    @property
    def path(self) -> str:
        """The key for readers."""
        return f"{self.folder}/{self.key}" if self.folder else self.key


@dataclass
class Tidy:
    """New names in the order of the old ones; None and a reason for members that belong to no sample."""

    names: list[str | None]
    reasons: list[str]
    fixed: Counter[str] = field(default_factory=Counter)  # fault -> number of members


def tidy_names(names: Sequence[str], archives: Sequence[int] | None = None) -> Tidy:
    """Return safe names ``folder/key.field``: no dot in a base key, one key for one sample, fields in lower case.

    ``archives`` distinguishes members of several archives in one file (as after ``cat a.tar b.tar``): a sample of a
    later archive that repeats a key with the same fields gets a new key. Tidy names stay unchanged.
    """
    if not any(archives or ()) and _are_tidy(names):
        return Tidy(list(names), [""] * len(names))
    keyed = [is_keyed_by_folder(name) for name in names]
    names = ["".join(name.rsplit("/", 1)) if by_folder else name for name, by_folder in zip(names, keyed, strict=True)]
    reasons = [junk(name) for name in names]
    origins = _origins(names, archives or [0] * len(names))
    _mark_papers(names, origins, reasons)
    kept = [index for index, reason in enumerate(reasons) if not reason]
    current = [names[index] for index in kept]
    own = [origins[index] for index in kept]
    fixed = Counter({"keys taken from folders": sum(keyed)})
    for _ in range(_ROUNDS):  # one round of fixes can reveal more; usually two rounds are enough
        after = _round(current, own, fixed)
        if after == current:
            break
        current, own = after, [0] * len(kept)
    result = Tidy([None] * len(reasons), reasons, +fixed)
    for index, name in zip(kept, current, strict=True):
        result.names[index] = name
    return result


def _are_tidy(names: Sequence[str]) -> bool:
    """Return whether all names are plain ones in one folder: a fast check for the common case."""
    if not names or junk(names[0]):
        return False
    folder = names[0].rpartition("/")[0]
    if folder != _safe("/".join(_parts(folder))):
        return False
    prefix = f"{folder}/" if folder else ""
    return all(
        name.startswith(prefix)
        and (match := _PLAIN.fullmatch(name, len(prefix))) is not None
        and match[1].lower() not in _PAPERS
        for name in names
    )


def junk(name: str) -> str:
    """Return why a member belongs to no sample; empty if it may belong to one.

    >>> junk("d/._a.jpg"), junk("README"), junk("./a.jpg")
    ('appledouble', 'no-extension', '')
    """
    parts = _parts(name)
    base = parts[-1] if parts else ""
    if "__MACOSX" in parts:
        return "macosx"
    if base.startswith("._"):
        return "appledouble"
    if base in _SYSTEM:
        return "system-file"
    if any(part.startswith(".") for part in parts):
        return "hidden"
    if is_meta("/".join(parts)):
        return "metadata"
    stem, _, extension = base.rpartition(".")
    return "" if stem and extension else "no-extension"


def _mark_papers(names: Sequence[str], origins: list[int], reasons: list[str]) -> None:
    """README.md and the like are not samples, unless another member shares their key."""
    fields: dict[tuple[int, str], set[str]] = defaultdict(set)
    papers: list[tuple[int, tuple[int, str]]] = []
    for index, name in enumerate(names):
        if not reasons[index] and name.rpartition("/")[2].partition(".")[0].lower() in _PAPERS:
            stem, extension = cut("/".join(_parts(name)))
            papers.append((index, (origins[index], stem)))
            fields[origins[index], stem].add(extension.lower())
    for index, place in papers:
        if fields[place] <= _PAPER_TYPES:
            reasons[index] = "not-a-sample"


def _parts(name: str) -> list[str]:
    return [part for part in name.split("/") if part not in ("", ".", "..")]


def _origins(names: Sequence[str], archives: Sequence[int]) -> list[int]:
    """Members of different archives, or below different absolute or upward paths, start as different samples."""
    known: dict[tuple[int, str], int] = {}
    return [
        known.setdefault((archive, "/" * name.startswith("/") + ".." * name.split("/").count("..")), len(known))
        if name.startswith("/") or ".." in name
        else known.setdefault((archive, ""), len(known))
        for name, archive in zip(names, archives, strict=True)
    ]


def _round(names: list[str], origins: list[int], fixed: Counter[str]) -> list[str]:
    paths: list[tuple[str, str]] = []
    for name in names:
        folder, _, base = "/".join(_parts(name)).rpartition("/")
        paths.append((folder, base))
        fixed["paths made relative"] += name.startswith("/") or ".." in name.split("/")
        fixed["./ removed"] += name.startswith("./")
    joined = _join_folders(paths)
    dots = Dots(joined) if any(base.count(".") > 1 for _, base in joined) else None
    samples: list[NamedSample] = []
    fields: list[str] = []
    for origin, old, (folder, base) in zip(origins, paths, joined, strict=True):
        key, part = dots.split(folder, base) if dots else cut(base)
        lower = _safe(part.lower())
        samples.append(NamedSample(origin, folder, key))
        fields.append(lower)
        fixed["folders joined"] += old[0] != folder
        fixed["fields in lower case"] += part.lower() != part
        fixed["dots removed from keys"] += "." in key
    keys = _keys(samples, fields)
    for sample, key in zip(samples, keys, strict=True):
        fixed["unsafe characters replaced"] += _safe(sample.path) != sample.path
        fixed["keys numbered to be unique"] += key != _wish(sample)
    return [f"{key}.{part}" for key, part in zip(keys, fields, strict=True)]


def _keys(samples: list[NamedSample], fields: list[str]) -> list[str]:
    """One safe key for each sample; keys that two samples would share are numbered."""
    groups: dict[NamedSample, set[str]] = defaultdict(set)
    for sample, part in zip(samples, fields, strict=True):
        groups[sample].add(part)
    homes: dict[str, list[NamedSample]] = defaultdict(list)
    home_of: dict[NamedSample, NamedSample] = {}
    for sample, parts in groups.items():  # members of a later archive complete a sample, or form a new one
        home = next((other for other in homes[sample.path] if not groups[other] & parts), None)
        if home is None:
            home = sample
            homes[sample.path].append(sample)
        else:
            groups[home] |= parts
        home_of[sample] = home
    taken: set[str] = set()
    names: dict[NamedSample, str] = {}
    owners = dict.fromkeys(home_of.values())
    for home in owners:  # a key that needs no change keeps its name
        if _wish(home) == home.path and home.path not in taken:
            names[home] = home.path
            taken.add(home.path)
    tries: Counter[str] = Counter()
    for home in owners:
        if home not in names:
            name = wish = _wish(home)
            while name in taken:
                tries[wish] += 1
                name = f"{wish}-{tries[wish] + 1}"
            taken.add(name)
            names[home] = name
    return [names[home_of[sample]] for sample in samples]


def _wish(sample: NamedSample) -> str:
    return _safe(f"{sample.folder}/{sample.key.replace('.', '_')}" if sample.folder else sample.key.replace(".", "_"))


def _safe(text: str) -> str:
    r"""Replace characters that would break a line, move a cursor or fail to decode.

    >>> _safe("a\nb\udcff")
    'a_b_'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join("_" if unicodedata.category(char) in _UNSAFE else char for char in text)
