"""Names of members that belong to no sample, and names that only look like that."""

import re
from collections import defaultdict
from collections.abc import Sequence

from wdsflow.shards.shard_names import IMAGE_FIELDS
from wdsflow.shards.tar.members import is_meta, split_name

from .dotted_names import split_base_name

_SYSTEM = frozenset({".DS_Store", "Thumbs.db", "desktop.ini"})
_DOCUMENTS = frozenset(
    {"readme", "license", "licence", "copying", "notice", "changelog", "nshards"}
)
_DOCUMENT_TYPES = frozenset({"md", "txt", "rst", "html"})
# Reasons for which some readers skip members, and others train on them.
_MAY_TRAIN = frozenset({"hidden", "metadata", "macosx"})
_UNDERSCORES = re.compile(r"^__|__$")


def path_parts(name: str) -> list[str]:
    """Return the levels of a path that lead downwards."""
    return [part for part in name.split("/") if part not in ("", ".", "..")]


def junk_reason(name: str) -> str:
    """Return why a member belongs to no sample; empty if it may belong to one.

    >>> junk_reason("d/._a.jpg"), junk_reason("README"), junk_reason("./a.jpg")
    ('appledouble', 'no-extension', '')
    """
    parts = path_parts(name)
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


def visible_name(name: str) -> str:
    """Return a name that no reader skips, for a member that belongs to a sample despite its name.

    >>> visible_name("000001/.jpg"), visible_name(".cache/a.txt"), visible_name("./__new__/a.jpg")
    ('000001.jpg', 'cache/a.txt', 'new/a.jpg')
    >>> visible_name(".jpg"), visible_name("...")
    ('jpg', '_')
    """
    parts = path_parts(name)
    if len(parts) > 1 and parts[-1].startswith("."):
        parts[-2:] = [parts[-2] + parts[-1]]
    parts = [part.lstrip(".") or "_" for part in parts]
    if is_meta("/".join(parts)) or parts[0] == "__MACOSX":
        parts[0] = _UNDERSCORES.sub("", parts[0]) or "_"
    return "/".join(parts)


def without_junk(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return why each member is junk ("" if it is not), and names that no reader skips.

    Junk keeps its name.

    Names such as ``000001/.jpg`` or ``.cache/1.jpg`` look like junk. Yet some readers train on
    them. So a hidden folder stays if a sample in it has an image and another field, and dot-files
    stay if together they are such a sample.

    >>> without_junk(["000001/.jpg", "000001/.txt", "d/.jpg"])
    (['', '', 'hidden'], ['000001.jpg', '000001.txt', 'd/.jpg'])
    """
    reasons = [junk_reason(name) for name in names]
    # The members that some readers train on, by their index: the keys, and the fields of each key.
    keys: dict[int, str] = {}
    fields: dict[str, set[str]] = defaultdict(set)
    for index, name in enumerate(names):
        if reasons[index] not in _MAY_TRAIN:
            continue
        key, field = split_name(name)
        if key is not None and field is not None:
            keys[index] = key
            fields[key].add(field.lower())
    samples = {key for key, names_of_fields in fields.items() if _is_sample(names_of_fields)}
    folders = {key.rpartition("/")[0] for key in samples if not key.endswith("/")}
    visible = list(names)
    for index, key in keys.items():
        # The key of a dot-file is its folder, with the slash.
        is_dot_file = key.endswith("/")
        is_kept = key in samples if is_dot_file else key.rpartition("/")[0] in folders
        if is_kept:
            reasons[index] = ""
            visible[index] = visible_name(names[index])
    return reasons, visible


def _is_sample(fields: set[str]) -> bool:
    """Return whether fields are those of an image and something else."""
    has_image = not fields.isdisjoint(IMAGE_FIELDS)
    return has_image and not fields.issubset(IMAGE_FIELDS)


def mark_documents(names: Sequence[str], origins: Sequence[int], reasons: list[str]) -> None:
    """Set the reason of README.md and the like, unless another member shares their key."""
    fields: dict[tuple[int, str], set[str]] = defaultdict(set)
    documents: dict[int, tuple[int, str]] = {}
    for index, name in enumerate(names):
        base = name.rpartition("/")[2]
        if reasons[index] or not is_document(base.partition(".")[0]):
            continue
        stem, extension = split_base_name("/".join(path_parts(name)))
        sample = origins[index], stem
        documents[index] = sample
        fields[sample].add(extension.lower())
    for index, sample in documents.items():
        if fields[sample] <= _DOCUMENT_TYPES:
            reasons[index] = "not-a-sample"


def is_document(stem: str) -> bool:
    """Return whether a file is about the others, by its name.

    >>> is_document("README"), is_document("000001")
    (True, False)
    """
    return stem.lower() in _DOCUMENTS
