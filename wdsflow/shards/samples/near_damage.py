"""Samples next to damage: which of them have lost a member."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from wdsflow.shards.tar.lost_members import HeaderGap

from .lost_fields import incomplete_neighbours
from .tar_sample import TarSample

# Names of the fields of a sample, in their order.
FieldNames = tuple[str, ...]


@dataclass
class NearDamage:
    """A part of a tar that cannot be read, and the samples before and after it."""

    gap: HeaderGap
    before: TarSample | None
    after: TarSample | None = None


def incomplete_samples(
    damages: Sequence[NearDamage], complete: AbstractSet[FieldNames], least: int
) -> set[int]:
    """Return the numbers of the samples that have lost a member, or may have.

    Readable parts of damaged headers come first. Otherwise a sample is complete if others have the
    same fields in the same order, and none has these and more where the damage is.

    Args:
        damages: all damage of the tar.
        complete: the fields of all samples that are not next to damage.
        least: the bytes of the smallest of these samples.
    """
    all_fields = set(complete)
    for damage in damages:
        for sample in (damage.before, damage.after):
            if sample is not None:
                all_fields.add(tuple(sample.fields))
    incomplete: set[int] = set()
    for damage in damages:
        before, after = damage.before, damage.after
        lost = incomplete_neighbours(damage.gap, before, after)
        before_is_shorter = before is not None and _may_lack_last_fields(before, all_fields)
        after_is_shorter = after is not None and _may_lack_first_fields(after, all_fields)
        # If the gap is too small for a whole sample, one of the two has lost its contents.
        either = (
            lost == (None, None)
            and not before_is_shorter
            and not after_is_shorter
            and 0 < damage.gap.size < least
        )
        sides = (
            (before, lost.before, before_is_shorter),
            (after, lost.after, after_is_shorter),
        )
        for sample, has_lost, is_shorter in sides:
            if sample is None:
                continue
            is_unlike_others = is_shorter or tuple(sample.fields) not in complete
            if has_lost or either or (has_lost is None and is_unlike_others):
                incomplete.add(sample.number)
    return incomplete


def _may_lack_last_fields(sample: TarSample, all_fields: AbstractSet[FieldNames]) -> bool:
    """Return whether another sample has the same fields, and more of them after these."""
    fields = tuple(sample.fields)
    longer = (other for other in all_fields if len(other) > len(fields))
    return any(other[: len(fields)] == fields for other in longer)


def _may_lack_first_fields(sample: TarSample, all_fields: AbstractSet[FieldNames]) -> bool:
    """Return whether another sample has the same fields, and more of them before these."""
    fields = tuple(sample.fields)
    longer = (other for other in all_fields if len(other) > len(fields))
    return any(other[-len(fields) :] == fields for other in longer)
