"""How many samples a reader loses by one fault, if there were no other."""

from collections.abc import Callable
from typing import NamedTuple

from wdsflow.readers.base import BAD_MARK, Reader
from wdsflow.scan.evidence import ShardEvidence
from wdsflow.scan.shapes import Part, Shape
from wdsflow.scan.statuses import OK, OPAQUE, UNKNOWN, UNSAFE

from .base import Context
from .folded_shapes import folded_shapes

FixPart = Callable[[Part], Part]
# Statuses of contents that are no fault.
_KEPT = frozenset({OK, UNKNOWN, OPAQUE, UNSAFE})


class RuleLoss(NamedTuple):
    """The loss of one reader in one shard by one fault, if there were no other."""

    samples: int = 0
    crash: bool = False


def loss(context: Context, reader: Reader, shard: ShardEvidence, fixed_part: FixPart) -> RuleLoss:
    """Return how many samples of a shard a reader would lose if they had only one fault.

    ``fixed_part`` returns a part without the fault, or the same object if it has none. A sample
    with two faults counts for both.
    """
    samples = 0
    crash = False
    for item in folded_shapes(context, reader, shard):
        fixed = tuple(fixed_part(part) for part in item.shape)
        if fixed == item.shape:
            continue
        # With this fault only: all other parts are valid.
        faulty = []
        for part, better in zip(item.shape, fixed, strict=True):
            faulty.append(part if part != better else valid_part(part))
        with_fault = tuple(faulty)
        without_fault = valid(fixed)
        regained = context.usable(reader, without_fault) - context.usable(reader, with_fault)
        samples += max(regained, 0) * item.count
        if crashes(context, reader, with_fault) and not crashes(context, reader, without_fault):
            crash = True
    return RuleLoss(samples, crash)


def crashes(context: Context, reader: Reader, shape: Shape) -> bool:
    """Return whether a reader raises at a run of that shape."""
    return any(fate.kind == "crash" for fate in context.fates(reader, shape))


def valid(shape: Shape) -> Shape:
    """Return the shape with all contents valid."""
    return tuple(valid_part(part) for part in shape)


def valid_part(part: Part) -> Part:
    """Return the part with valid contents."""
    # An empty field of this name is valid; with any content, readers drop the sample.
    is_kept = part.status in _KEPT or part.suffix.lower() == BAD_MARK
    if is_kept and part.fits:
        return part
    return Part(part.suffix, part.status if is_kept else OK)
