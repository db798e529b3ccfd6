"""Pairs images and texts whose names differ but evidently belong together.

Each scheme is one function. It returns a key for each member that has no partner yet. A scheme is
used if it gives nearly all of them a partner, every pair has exactly one image and no field twice,
and no member of another sample has such a key. What pairs today is never touched. If no scheme
fits, nothing is renamed.

Whether json and labels are texts that pair with an image, or only companions of what has their
name, is not known: in ``1/image.jpg``, ``1/image.json`` and ``1/caption.txt`` json is one. What
gives more members a new name is right.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from wdsflow.scan.naming import CAPTIONS
from wdsflow.scan.naming import IMAGES as IMAGE_NAMES

from .dotted_names import split_base_name
from .joined_folders import PathParts, join_folders
from .junk_names import junk_reason, path_parts

IMAGES = frozenset(IMAGE_NAMES)
TEXTS = frozenset(CAPTIONS)
_LABELS = frozenset({"cls", "label", "class"})
_COMPANIONS = _LABELS | {"json", "jsn"}
CAPTIONS_ALONE = TEXTS - _COMPANIONS
# What may be a text; the rest are companions. Of those that give as many members a name, the first
# one is right.
_KINDS_OF_TEXTS = (TEXTS, TEXTS - {"json", "jsn"}, TEXTS - _LABELS, CAPTIONS_ALONE)
# Of the images or texts without a partner, whichever are fewer: how many a scheme has to pair.
_NEARLY_ALL = 0.9
# Of those that are more: a set may lack some captions, not most.
_MOST = 0.5
# Words that say what a file is, not which sample it belongs to.
_IMAGE_WORDS = frozenset(
    "image images img imgs picture pictures pic photo photos jpg jpeg png webp".split()
)
_TEXT_WORDS = frozenset(
    "caption captions cap text texts txt label labels description desc prompt prompts alt title json meta metadata "
    "annotation annotations ann tag tags".split()
)
_FIRST_WORD = re.compile(r"([A-Za-z]+)[_\-. ]*(?=.)")
_LAST_WORD = re.compile(r"(?<=.)[_\-. ]*?([A-Za-z]+)$")


@dataclass(frozen=True)
class MemberName:
    """A member by the parts of its name.

    ``index``: its position in the shard. ``texts``: the extensions that count as text.
    """

    index: int
    folder: str
    stem: str
    extension: str
    texts: frozenset[str] = TEXTS

    @property
    def is_image(self) -> bool:
        """Whether its extension is that of an image."""
        return self.extension.lower() in IMAGES

    @property
    def is_text(self) -> bool:
        """Whether its extension is that of a caption, a label or, if it counts, json."""
        return self.extension.lower() in self.texts


class Target(NamedTuple):
    """The sample that a member belongs to."""

    folder: str
    key: str

    @property
    def path(self) -> str:
        """The key for readers."""
        return f"{self.folder}/{self.key}" if self.folder else self.key


class ShardNames(NamedTuple):
    """The members of a shard that may belong to samples.

    Attributes:
        members: all of them.
        unpaired: the images and texts that have no partner by their names.
    """

    members: list[MemberName]
    unpaired: list[MemberName]


def pair_names(names: Sequence[str]) -> list[str]:
    """Return the names of the members of a shard, with new keys for those that a scheme pairs.

    >>> pair_names(["1_image.jpg", "1_caption.txt", "2_image.jpg", "2_caption.txt"])
    ['1.jpg', '1.txt', '2.jpg', '2.txt']
    """
    names = without_spaces(names)
    members = _members(names)
    renamed = max((_renamed(members, texts) for texts in _KINDS_OF_TEXTS), key=len)
    return [renamed.get(index, name) for index, name in enumerate(names)]


def _renamed(members: Sequence[MemberName], texts: frozenset[str]) -> dict[int, str]:
    """Return the new names by the first scheme that fits, if these are the extensions of texts."""
    members = [replace(member, texts=texts) for member in members]
    shard = ShardNames(members, _without_partner(members))
    for scheme in (
        pair_by_image_name,
        pair_without_field_words,
        pair_by_folder,
        pair_ignoring_case,
    ):
        renamed = _evident_names(_with_companions(scheme(shard), members), shard)
        if renamed:
            return renamed
    return {}


def without_spaces(names: Sequence[str]) -> list[str]:
    """Return names without spaces around field and key.

    A name such as ``1.txt`` plus a space stays if another member has the name without it.

    >>> without_spaces(["1.jpg", "1.txt ", "2 .jpg", "2.txt"])
    ['1.jpg', '1.txt', '2.jpg', '2.txt']
    """
    used = set(names)
    stripped: list[str] = []
    for name in names:
        folder, slash, base = name.rpartition("/")
        stem, dot, extension = base.rpartition(".")
        bare = f"{folder}{slash}{stem.strip()}{dot}{extension.strip()}"
        is_free = bare not in used and stem.strip() and extension.strip()
        stripped.append(bare if is_free else name)
        used.add(stripped[-1])
    return stripped


def pair_by_image_name(names: ShardNames) -> dict[int, Target]:
    """The text has the whole name of the image: ``1.jpg`` and ``1.jpg.txt``."""
    targets: dict[int, Target] = {}
    for member in names.unpaired:
        if member.is_image:
            targets[member.index] = Target(member.folder, member.stem)
            continue
        stem, extension = split_base_name(member.stem)
        if extension.lower() in IMAGES:
            targets[member.index] = Target(member.folder, stem)
    return targets


def pair_without_field_words(names: ShardNames) -> dict[int, Target]:
    """Return targets without words that tell what a file is.

    Examples are ``1_image.jpg`` and ``1_caption.txt``, ``img1.jpg`` and ``1.txt``.
    """
    targets: dict[int, Target] = {}
    # Of "images/img_1.jpg" and "captions/cap_1.txt" the folders say it, too.
    kinds: dict[str, set[bool]] = defaultdict(set)
    for member in names.unpaired:
        kinds[member.folder].add(member.is_image)
    is_split_by_folder = all(len(kind) == 1 for kind in kinds.values()) and "" not in kinds
    for member in names.unpaired:
        words = _IMAGE_WORDS if member.is_image else _TEXT_WORDS
        folder, _, last = member.folder.rpartition("/")
        if not (is_split_by_folder and last.lower() in words):
            folder = member.folder
        targets[member.index] = Target(folder, _without_word(member.stem, words))
    return targets


def _without_word(stem: str, words: frozenset[str]) -> str:
    """Return a stem without its first or last word, if that is one of these.

    >>> _without_word("1_image", _IMAGE_WORDS), _without_word("img-1", _IMAGE_WORDS), _without_word("image", _IMAGE_WORDS)
    ('1', '1', 'image')
    """
    last = _LAST_WORD.search(stem)
    if last is not None and last[1].lower() in words:
        return stem[: last.start()]
    first = _FIRST_WORD.match(stem)
    if first is not None and first[1].lower() in words:
        return stem[first.end() :]
    return stem


def pair_by_folder(names: ShardNames) -> dict[int, Target]:
    """Each sample has a folder: ``1/image.jpg`` and ``1/caption.txt``."""
    unpaired = {member.index for member in names.unpaired}
    # A folder that holds samples is not that of one sample.
    shared: set[str] = set()
    for member in names.members:
        if (member.is_image or member.is_text) and member.index not in unpaired:
            shared.add(member.folder)
    targets: dict[int, Target] = {}
    for member in names.members:
        if member.folder and member.folder not in shared:
            parent, _, key = member.folder.rpartition("/")
            targets[member.index] = Target(parent, key)
    return targets


def pair_ignoring_case(names: ShardNames) -> dict[int, Target]:
    """The names differ in case only: ``IMG_1.jpg`` and ``img_1.txt``."""
    targets: dict[int, Target] = {}
    by_lower = {
        (member.folder.lower(), member.stem.lower()): member
        for member in names.unpaired
        if member.is_image
    }
    for member in names.unpaired:
        image = by_lower.get((member.folder.lower(), member.stem.lower()))
        if image is not None:
            targets[member.index] = Target(image.folder, image.stem)
    return targets


def _members(names: Sequence[str]) -> list[MemberName]:
    """Return the members that may belong to samples.

    Their names are those without dividing folders.
    """
    indexes: list[int] = []
    paths: list[PathParts] = []
    for index, name in enumerate(names):
        if junk_reason(name):
            continue
        folder, _, base = "/".join(path_parts(name)).rpartition("/")
        indexes.append(index)
        paths.append(PathParts(folder, base))
    members: list[MemberName] = []
    for index, (folder, base) in zip(indexes, join_folders(paths), strict=True):
        stem, extension = split_base_name(base)
        members.append(MemberName(index, folder, stem, extension))
    return members


def _without_partner(members: Sequence[MemberName]) -> list[MemberName]:
    """Return the images and texts that have no partner by their names."""
    images = {(member.folder, member.stem) for member in members if member.is_image}
    texts = {(member.folder, member.stem) for member in members if member.is_text}
    paired = images & texts
    return [
        member
        for member in members
        if (member.is_image or member.is_text) and (member.folder, member.stem) not in paired
    ]


def _with_companions(
    targets: dict[int, Target], members: Sequence[MemberName]
) -> dict[int, Target]:
    """Return the targets, extended by json and label members.

    Such a member gets the target of the image or text with the same name.
    """
    by_name: dict[tuple[str, str], Target] = {}
    for member in members:
        if member.index in targets:
            by_name.setdefault((member.folder, member.stem), targets[member.index])
    companions: dict[int, Target] = {}
    for member in members:
        target = by_name.get((member.folder, member.stem))
        if target is not None and not member.is_image and member.extension.lower() in _COMPANIONS:
            companions[member.index] = target
    return {**companions, **targets}


def _evident_names(targets: dict[int, Target], shard: ShardNames) -> dict[int, str]:
    """Return the new names that a scheme gives.

    Empty if it does not pair nearly all members without doubt.
    """
    groups: dict[Target, list[MemberName]] = defaultdict(list)
    key_counts: Counter[Target] = Counter()
    for member in shard.members:
        key_counts[Target(member.folder, member.stem)] += 1
        if member.index in targets:
            groups[targets[member.index]].append(member)
    renamed: dict[int, str] = {}
    pairs = 0
    for target, group in groups.items():
        with_that_key = sum(Target(member.folder, member.stem) == target for member in group)
        if with_that_key < key_counts[target]:
            # Other members have the key.
            continue
        names = _names_of_sample(target, group)
        pairs += bool(names)
        renamed.update(names)
    images = sum(member.is_image for member in shard.unpaired)
    texts = len(shard.unpaired) - images
    fewer, more = sorted((images, texts))
    is_evident = pairs > 0 and pairs >= _NEARLY_ALL * fewer and pairs >= _MOST * more
    return renamed if is_evident else {}


def _names_of_sample(target: Target, group: Sequence[MemberName]) -> dict[int, str]:
    """Return the names of the members of one sample; none if they cannot be one."""
    images = [member for member in group if member.is_image]
    if len(images) > 1:
        # "image.jpg" next to "mask.png": the word says which is the image of the sample.
        images = [member for member in images if member.stem.lower() in _IMAGE_WORDS]
    texts = [member for member in group if member.is_text]
    if len(images) != 1 or not texts:
        return {}
    extensions = Counter(member.extension.lower() for member in group)
    names: dict[int, str] = {}
    for member in group:
        has_plain_name = not member.is_image and extensions[member.extension.lower()] == 1
        if has_plain_name or member is images[0]:
            names[member.index] = f"{target.path}.{member.extension}"
        else:
            names[member.index] = f"{target.path}.{member.stem}.{member.extension}"
    # Two texts of one extension: which is the caption is unknown.
    has_doubt = any(extensions[member.extension.lower()] > 1 for member in texts)
    return {} if has_doubt or len(set(names.values())) < len(names) else names
