"""Shapes of samples in which numbers replace unusual field names.

Many samples then share a shape.

A base name with dots makes a field name of its rest: ``0 (x).jpg`` of ``photo 2.0 (x).jpg``. There
may be as many of these as samples. In shapes for rules they are replaced by their number within the
sample, so that the work grows with the number of different shapes.
"""

from wdsflow.readers.base import Reader
from wdsflow.scan.evidence import ShardEvidence
from wdsflow.scan.naming import is_dotted, is_numbered
from wdsflow.scan.shapes import Part, Shape, ShapeCount

from .base import Context

# Cannot occur in names in a tar.
_MARK = "\0"


def folded_shapes(
    context: Context, reader: Reader, shard: ShardEvidence, *, with_tail: bool = True
) -> tuple[ShapeCount, ...]:
    """Return the shapes of a shard for a reader, with unusual field names numbered.

    Shapes that differ only in unusual field names are merged.
    """
    runs = reader.runs(shard)

    def merged_shapes() -> tuple[ShapeCount, ...]:
        merged: dict[Shape, ShapeCount] = {}
        for item in runs.shape_counts(with_tail=with_tail):
            shape = fold_shape(shard, item.shape)
            first = merged.get(shape)
            if first is None:
                merged[shape] = ShapeCount(shape, item.count, item.key, item.offset)
            else:
                count = first.count + item.count
                merged[shape] = ShapeCount(shape, count, first.key, first.offset)
        return tuple(merged.values())

    return context.cached(("shapes", id(runs), with_tail), merged_shapes)


def is_wild(shard: ShardEvidence, suffix: str) -> bool:
    """Return whether a field name is the rest of a base name with dots.

    Other field names are shared by many samples.
    """
    if "." not in suffix:
        return False
    lower = suffix.lower()
    if lower.startswith(("*.", _MARK)):
        return True
    if shard.numbered and is_numbered(lower):
        return False
    if not is_dotted(lower):
        return False
    entry = shard.fields.get(lower)
    if entry is None or entry.count < 2:
        return True
    return entry.count < shard.samples / 2


def without_dots(shard: ShardEvidence, part: Part) -> Part:
    """Return the part as if its member's base name had no dots; the same object if it has none."""
    if "." not in part.suffix or not is_wild(shard, part.suffix):
        return part
    return Part(part.suffix.rpartition(".")[2], part.status)


def fold_shape(shard: ShardEvidence, shape: Shape) -> Shape:
    """Return an equivalent shape in which unusual field names are numbered.

    Many samples then share it.
    """
    if not any("." in part.suffix for part in shape):
        return shape
    numbers: dict[str, int] = {}
    return tuple(_numbered(shard, part, numbers) for part in shape)


def display_name(suffix: str) -> str:
    r"""Return a field name for messages; it may be a numbered one.

    >>> display_name("jpg"), display_name("\x001.jpg")
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
