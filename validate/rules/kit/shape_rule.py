"""Questions that rules ask readers about the shapes of samples."""

from collections.abc import Callable
from typing import NamedTuple

from wdsflow.readers.base import Reader
from wdsflow.readers.grouping import BAD_MARK
from wdsflow.scan.evidence import OK, OPAQUE, UNKNOWN, UNSAFE, Part, Shape, ShapeCount, ShardEvidence

from .base import Context
from .unusual_names import fold

FixPart = Callable[[Part], Part]
_KEPT = frozenset({OK, UNKNOWN, OPAQUE, UNSAFE})


class RuleLoss(NamedTuple):
    """The cost of one fault for one reader in one shard."""

    samples: int = 0
    crash: bool = False


def folded(context: Context, reader: Reader, shard: ShardEvidence, *, with_tail: bool = True) -> tuple[ShapeCount, ...]:
    """Return the shapes of a shard as a reader sees them; shapes that differ only in unusual field names are merged."""
    runs = reader.runs(shard)
    place = (id(runs), with_tail)
    known = context.known_shapes.get(place)
    if known is None:
        found: dict[Shape, ShapeCount] = {}
        for item in runs.counted(with_tail=with_tail):
            shape = fold(shard, item.shape)
            first = found.get(shape)
            count = item.count + (first.count if first else 0)
            found[shape] = ShapeCount(shape, count, (first or item).key, (first or item).offset)
        known = context.known_shapes[place] = tuple(found.values())
    return known


def loss(context: Context, reader: Reader, shard: ShardEvidence, fixed_part: FixPart) -> RuleLoss:
    """Return how many samples of a shard one fault alone costs a reader, as if they had no other fault.

    ``fixed_part`` returns a part without the fault, or the same object if it finds none. A sample with two faults counts for
    both.
    """
    samples, crash = 0, False
    for item in folded(context, reader, shard):
        fixed = tuple(fixed_part(part) for part in item.shape)
        if fixed == item.shape:
            continue
        pairs = zip(item.shape, fixed, strict=True)
        hurt = tuple(part if part != better else well(part) for part, better in pairs)
        healed = sound(fixed)
        samples += max(context.usable(reader, healed) - context.usable(reader, hurt), 0) * item.count
        crash = crash or (crashes(context, reader, hurt) and not crashes(context, reader, healed))
    return RuleLoss(samples, crash)


def crashes(context: Context, reader: Reader, shape: Shape) -> bool:
    """Return whether a run of that shape ends the reader with an exception."""
    return any(fate.kind == "crash" for fate in context.fates(reader, shape))


def sound(shape: Shape) -> Shape:
    """Return the shape with all contents valid."""
    return tuple(well(part) for part in shape)


def well(part: Part) -> Part:
    """Return the part with valid contents."""
    # An empty mark is valid; with any content, the sample is thrown away.
    kept = part.status in _KEPT or part.suffix.lower() == BAD_MARK
    return part if kept and part.fits else Part(part.suffix, part.status if kept else OK)


def fields_in(shape: Shape) -> set[str]:
    """Return the field names of a sample, in lower case."""
    return {part.suffix.lower() for part in shape}


def wanted(context: Context, reader: Reader, role: str) -> tuple[str, ...]:
    """Return the field names that a reader takes for the ``role`` ("image" or "caption"); () if it wants none."""
    images, captions = _candidates(reader)
    mine, others = (images, captions) if role == "image" else (captions, images)
    if any(context.usable(reader, (Part(name, OK),)) for name in others):
        return ()  # content with the other one alone
    return tuple(
        name for name in mine if any(context.usable(reader, (Part(other, OK), Part(name, OK))) for other in others)
    )


def has_role(context: Context, reader: Reader, shape: Shape, role: str) -> bool:
    """Return whether a sample has a field that the reader takes for its image or caption, valid or not."""
    place = (reader.name, role, shape)
    known = context.known_roles.get(place)
    if known is None:
        known = context.known_roles[place] = _has_role(context, reader, sound(shape), role)
    return known


def _has_role(context: Context, reader: Reader, shape: Shape, role: str) -> bool:
    images, captions = _candidates(reader)
    others = captions if role == "image" else images
    shape = tuple(part for part in shape if part.suffix.lower() != BAD_MARK)  # another fault than a missing field
    names = fields_in(shape)
    trials = [shape, *((*shape, Part(name, OK)) for name in others if name not in names)]
    return any(context.usable(reader, trial) for trial in trials)


def _candidates(reader: Reader) -> tuple[list[str], list[str]]:
    paired = [*reader.paired_fields(), *(["txt"] if reader.pairs_with == "caption" else [])]
    return list(dict.fromkeys([*reader.image_fields(), "jpg"])), list(dict.fromkeys(paired))
