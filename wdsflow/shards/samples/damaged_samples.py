"""Which samples next to damage have lost a member, or may have.

This is judged while the samples of a tar are read.
"""

from collections.abc import Callable
from collections.abc import Set as AbstractSet

from wdsflow.shards.source.base import Source
from wdsflow.shards.tar.members import split_name
from wdsflow.shards.tar.walk import Walk

from .near_damage import NearDamage
from .tar_sample import TarSample


class DamagedSamples:
    """Judges the samples of one tar, in their order, and marks those that are damaged.

    Args:
        source: the bytes of the tar.
        walk: the walk over it.
        find_incomplete: reads the tar again, and returns the numbers of all samples that damage has
            left incomplete. None: all samples next to damage are taken for incomplete.

    Attributes:
        damages: the damage so far.
        first_incomplete: the first incomplete sample, in a sentence; "" if there is none.
    """

    def __init__(
        self, source: Source, walk: Walk, find_incomplete: Callable[[], AbstractSet[int]] | None
    ) -> None:
        self.damages: list[NearDamage] = []
        self.first_incomplete = ""
        self._source = source
        self._walk = walk
        self._find_incomplete = find_incomplete
        # The result of the survey, once it is needed.
        self._incomplete: AbstractSet[int] | None = None
        # The damage directly before the current sample.
        self._damage_before: NearDamage | None = None
        # The fields of the latest valid sample.
        self._usual_fields: tuple[str, ...] = ()

    def pass_gap(self, *, is_damage: bool) -> None:
        """Note damage, or the end of an archive, that does not follow a sample."""
        self._damage_before = None
        if is_damage:
            self._add_damage(None)

    def judge(self, sample: TarSample, *, before_damage: bool) -> None:
        """Judge a sample at possible damage and mark it if it has lost members.

        It is complete as far as it can be read. ``before_damage``: damage follows it.
        """
        is_near_damage = before_damage
        if self._damage_before is not None:
            self._damage_before.after = sample
            self._damage_before = None
            is_near_damage = True
        if before_damage:
            self._add_damage(sample)
        if is_near_damage and self._is_incomplete(sample):
            sample.trouble = "beside-damage"
            if not self.first_incomplete:
                self.first_incomplete = (
                    f"at byte {sample.start:,} a sample lacks members: {sample.key}"
                )
        if not sample.trouble:
            self._usual_fields = tuple(sample.fields)

    def skip_valid(self, fields: tuple[str, ...]) -> None:
        """Note valid samples that need no judgement, by the fields of the last one."""
        self._usual_fields = fields

    def _add_damage(self, before: TarSample | None) -> None:
        damage = NearDamage(self._walk.gap, before)
        self.damages.append(damage)
        self._damage_before = damage

    def _is_incomplete(self, sample: TarSample) -> bool:
        """Return whether a sample next to damage has lost a member, or may have."""
        if self._find_incomplete is None:
            return True
        if any(split_name(name)[0] == sample.key for name in self._walk.lost):
            return True
        if not self._source.is_seekable:
            # A stream cannot be read again.
            return tuple(sample.fields) != self._usual_fields
        if self._incomplete is None:
            self._incomplete = self._find_incomplete()
        return sample.number in self._incomplete
