"""Field names that are the rest of a base name with dots: ``0 (x).jpg`` of ``photo 2.0 (x).jpg``.

There may be as many of them as samples. Rules therefore look at shapes in which these names are replaced by their
number within the sample: the work grows with the number of kinds of samples.
"""

from wdsflow.scan.evidence import Part, Shape, ShardEvidence
from wdsflow.scan.naming import is_dotted, is_numbered

_MARK = "\0"  # in no name of a tar


def is_wild(shard: ShardEvidence, suffix: str) -> bool:
    """Return whether a field name is the rest of a base name with dots, not a name that many samples share."""
    if "." not in suffix:
        return False
    lower = suffix.lower()
    if lower.startswith(("*.", _MARK)):
        return True
    if shard.numbered and is_numbered(lower):
        return False
    entry = shard.fields.get(lower)
    return is_dotted(lower) and (entry is None or entry.count < 2 or entry.count < shard.samples / 2)


def undotted(shard: ShardEvidence, part: Part) -> Part:
    """Return the part as if its member's base name had no dots; the same object if it has none."""
    if "." not in part.suffix or not is_wild(shard, part.suffix):
        return part
    return Part(part.suffix.rpartition(".")[2], part.status)


def fold(shard: ShardEvidence, shape: Shape) -> Shape:
    """Return an equivalent shape for every reader, with unusual field names numbered: the same for many samples."""
    for part in shape:
        if "." in part.suffix:
            numbers: dict[str, int] = {}
            return tuple(_numbered(shard, part, numbers) for part in shape)
    return shape


def shown(suffix: str) -> str:
    r"""Return a field name for people; it may be a numbered one.

    >>> shown("jpg"), shown("\x001.jpg")
    ('jpg', '*.jpg')
    """
    return "*." + suffix.partition(".")[2] if suffix.startswith(_MARK) else suffix


def _numbered(shard: ShardEvidence, part: Part, numbers: dict[str, int]) -> Part:
    suffix = part.suffix
    # Some readers treat names with __ or a newline specially.
    if suffix.startswith("__") or "\n" in suffix or not is_wild(shard, suffix):
        return part
    start, _, last = suffix.rpartition(".")
    if last == "gz":
        last = f"{start.rpartition('.')[2]}.gz"
    return Part(f"{_MARK}{numbers.setdefault(suffix, len(numbers))}.{last}", part.status)
