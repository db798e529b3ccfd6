"""Which samples next to damage have lost a member."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from wdsflow.shards.tar.damaged_headers import HeaderGap, Neighbour

from .tar_sample import TarSample

_Fields = tuple[str, ...]


@dataclass
class NearDamage:
    """A part of a tar that cannot be read, and the samples before and after it."""

    gap: HeaderGap
    before: TarSample | None
    after: TarSample | None = None


def losers(damages: Sequence[NearDamage], known: AbstractSet[_Fields], least: int) -> set[int]:
    """Return the numbers of the samples that have lost a member, or may have.

    What damaged headers still tell comes first. Otherwise a sample is whole if others have the same fields in the same
    order, and none has these and more where the damage is.

    Args:
        damages: what cannot be read.
        known: the fields of all samples that are not next to damage.
        least: bytes of the smallest of them.
    """
    seen = known | {tuple(each.fields) for damage in damages for each in (damage.before, damage.after) if each}
    found: set[int] = set()
    for damage in damages:
        gap, sides = damage.gap, (damage.before, damage.after)
        lost = gap.hurts(_neighbour(damage.before), _neighbour(damage.after))
        shorter = [sample is not None and _is_shorter(sample, seen, at_end=sample is damage.before) for sample in sides]
        # One of the two must have lost what was in a part that is too small for a whole sample.
        either = lost == (None, None) and not any(shorter) and 0 < gap.size < least
        for sample, is_lost, less in zip(sides, lost, shorter, strict=True):
            if sample is not None and (
                is_lost or either or (is_lost is None and (less or tuple(sample.fields) not in known))
            ):
                found.add(sample.number)
    return found


def _neighbour(sample: TarSample | None) -> Neighbour | None:
    return None if sample is None else Neighbour(sample.key, sample.fields)


def _is_shorter(sample: TarSample, seen: AbstractSet[_Fields], *, at_end: bool) -> bool:
    """Return whether another sample has the same fields and more of them, at the end or at the start."""
    fields = tuple(sample.fields)
    longer = (each for each in seen if len(each) > len(fields))
    return any((each[: len(fields)] if at_end else each[-len(fields) :]) == fields for each in longer)
