"""Gives members names that every reader splits into the same keys and fields."""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from wdsflow.shards.tar.member_names import is_meta

from .dots import Dots, cut
from .folders import join_folders

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
    reasons = [junk(name) for name in names]
    origins = _origins(names, archives or [0] * len(names))
    _mark_papers(names, origins, reasons)
    kept = [index for index, reason in enumerate(reasons) if not reason]
    current = [names[index] for index in kept]
    own = [origins[index] for index in kept]
    fixed: Counter[str] = Counter()
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
    """Return whether all names are plain ones in one folder: the common case, in a part of the time."""
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
    """Return why a member belongs to no sample; empty if it may.

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
    """Members of different archives, or below different absolute or upward paths, are different samples at first."""
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
    joined = join_folders(paths)
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
            names[home] = _free(_wish(home), taken, tries)
    return [names[home_of[sample]] for sample in samples]


def _wish(sample: NamedSample) -> str:
    return _safe(f"{sample.folder}/{sample.key.replace('.', '_')}" if sample.folder else sample.key.replace(".", "_"))


def _free(wish: str, taken: set[str], tries: Counter[str]) -> str:
    name = wish
    while name in taken:
        tries[wish] += 1
        name = f"{wish}-{tries[wish] + 1}"
    taken.add(name)
    return name


def _safe(text: str) -> str:
    r"""Replace characters that would break a line, move a cursor or fail to decode.

    >>> _safe("a\nb\udcff")
    'a_b_'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join("_" if unicodedata.category(char) in _UNSAFE else char for char in text)
