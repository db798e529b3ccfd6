"""The members of a repaired shard."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from wdsflow.pieces.tar_members import member as new_member
from wdsflow.pieces.tar_members import moved_member
from wdsflow.shards.source.base import Piece
from wdsflow.shards.tar.members import Member

from .regroup import RegroupedSample
from .repair_report import ShardRepair
from .sample_fixer import Field, SampleFixer


class RepairedMember(NamedTuple):
    """A member to write."""

    name: str
    field: Field

    def pieces(self) -> tuple[Piece, ...]:
        """Return the pieces of the tar that it becomes."""
        data, member = self.field.data, self.field.member
        if data is not None or member is None:
            return (new_member(self.name, data or b""),)
        return moved_member(self.name, member.data, member.size)

    def is_like(self, member: Member) -> bool:
        """Return whether it has the name and the contents of a member of the input."""
        return self.name == member.name and self.field.data is None and self.field.member == member


def repaired_members(
    samples: Iterable[RegroupedSample], fixer: SampleFixer, report: ShardRepair
) -> Iterator[RepairedMember]:
    """Yield the members of samples as changed by a plan.

    Counts them in the report. Raises OSError.
    """
    for sample in samples:
        fields = fixer.fix(sample)
        report.samples_written += bool(fields)
        report.written += len(fields)
        for field in fields:
            yield RepairedMember(f"{sample.key}.{field.name}", field)
