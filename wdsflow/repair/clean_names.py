"""Renames members so that every reader splits the names into the same key and field."""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from .dotted_names import DottedNames, split_base_name
from .joined_folders import PathParts, join_folders
from .junk_names import is_document, junk_reason, mark_documents, path_parts, without_junk

# controls, bytes that are not UTF-8, line separators
_UNSAFE = frozenset({"Cc", "Cs", "Zl", "Zp"})
_PLAIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9 _-]*)\.[a-z0-9]+")
# One round of fixes can reveal more; usually two are enough.
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

    @property
    def safe_path(self) -> str:
        """The key without dots in its last part, and without characters that are not safe."""
        key = self.key.replace(".", "_")
        return _safe(f"{self.folder}/{key}" if self.folder else key)


@dataclass
class TidyNames:
    """New names in the order of the old ones.

    Members that belong to no sample have None, and a reason.
    """

    names: list[str | None]
    reasons: list[str]
    # fault -> number of members
    fixed: Counter[str] = field(default_factory=Counter)


def tidy_names(names: Sequence[str]) -> TidyNames:
    """Return safe names ``folder/key.field``, with one key per sample.

    Base keys have no dot, and fields are in lower case.

    Names that are the same stay the same. Tidy names stay unchanged.
    """
    if _are_tidy(names):
        return TidyNames(list(names), [""] * len(names))
    reasons, current = without_junk(names)
    origins = _origins(names)
    mark_documents(names, origins, reasons)
    kept = [index for index, reason in enumerate(reasons) if not reason]
    current = [current[index] for index in kept]
    origins = [origins[index] for index in kept]
    fixed: Counter[str] = Counter()
    for index in kept:
        name = names[index]
        fixed["paths made relative"] += name.startswith("/") or ".." in name.split("/")
        fixed["./ removed"] += name.startswith("./")
    for _ in range(_ROUNDS):
        after = _round(current, origins, fixed)
        if after == current:
            break
        # Keys are unique now, whatever the origins.
        current, origins = after, [0] * len(kept)
    result = TidyNames([None] * len(reasons), reasons, +fixed)
    for index, name in zip(kept, current, strict=True):
        result.names[index] = name
    return result


def _are_tidy(names: Sequence[str]) -> bool:
    """Return whether all names are plain ones in one folder: a fast check for the common case."""
    if not names or junk_reason(names[0]):
        return False
    folder = names[0].rpartition("/")[0]
    if folder != _safe("/".join(path_parts(folder))):
        return False
    prefix = f"{folder}/" if folder else ""
    for name in names:
        if not name.startswith(prefix):
            return False
        match = _PLAIN.fullmatch(name, len(prefix))
        if match is None or is_document(match[1]):
            return False
    return True


def _origins(names: Sequence[str]) -> list[int]:
    """Number the absolute or upward paths below which members are.

    Members below different paths start as different samples.
    """
    numbers: dict[str, int] = {}
    origins: list[int] = []
    for name in names:
        root = ""
        if name.startswith("/") or ".." in name:
            root = "/" * name.startswith("/") + ".." * name.split("/").count("..")
        origins.append(numbers.setdefault(root, len(numbers)))
    return origins


def _round(names: list[str], origins: list[int], fixed: Counter[str]) -> list[str]:
    """Return the names after one round of fixes, which are counted by member."""
    paths: list[PathParts] = []
    for name in names:
        folder, _, base = "/".join(path_parts(name)).rpartition("/")
        paths.append(PathParts(folder, base))
    joined = join_folders(paths)
    dotted = DottedNames(joined) if any(base.count(".") > 1 for _, base in joined) else None
    samples: list[NamedSample] = []
    fields: list[str] = []
    for origin, before, (folder, base) in zip(origins, paths, joined, strict=True):
        key, name = dotted.split(folder, base) if dotted else split_base_name(base)
        samples.append(NamedSample(origin, folder, key))
        fields.append(_safe(name.lower()))
        fixed["folders joined"] += before.folder != folder
        fixed["fields in lower case"] += name.lower() != name
        fixed["dots removed from keys"] += "." in key
    keys = _unique_keys(samples)
    after: list[str] = []
    for sample, key, name in zip(samples, keys, fields, strict=True):
        fixed["unsafe characters replaced"] += _safe(sample.path) != sample.path
        fixed["keys numbered to be unique"] += key != sample.safe_path
        after.append(f"{key}.{name}")
    return after


def _unique_keys(samples: list[NamedSample]) -> list[str]:
    """Return a safe key for each sample; keys that two samples would share are numbered."""
    distinct = list(dict.fromkeys(samples))
    keys: dict[NamedSample, str] = {}
    used: set[str] = set()
    # A key that needs no change keeps its name.
    for sample in distinct:
        if sample.safe_path == sample.path and sample.path not in used:
            keys[sample] = sample.path
            used.add(sample.path)
    numbers: Counter[str] = Counter()
    for sample in distinct:
        if sample not in keys:
            keys[sample] = unused_key(sample.safe_path, used, numbers)
    return [keys[sample] for sample in samples]


def unused_key(key: str, used: set[str], numbers: Counter[str]) -> str:
    """Return a key, with a number after it if it is used; it is used from now on.

    ``numbers`` holds how often each key was numbered: of many samples with one key each is found at
    once.

    >>> unused_key("a", {"a", "a-2"}, Counter()), unused_key("b", set(), Counter())
    ('a-3', 'b')
    """
    name = key
    while name in used:
        numbers[key] += 1
        name = f"{key}-{numbers[key] + 1}"
    used.add(name)
    return name


def _safe(text: str) -> str:
    r"""Replace characters that would break a line, move a cursor or fail to decode.

    >>> _safe("a\nb\udcff")
    'a_b_'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join("_" if unicodedata.category(char) in _UNSAFE else char for char in text)
