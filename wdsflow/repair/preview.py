"""A repaired shard that is not written."""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from wdsflow.shards.shard import Shard
from wdsflow.shards.source.opening import seekable

from .borders import Borders
from .repair_plan import RepairPlan
from .repair_report import ShardRepair
from .repaired_members import repaired_members
from .sample_fixer import Field, SampleFixer
from .shard_samples import read_samples


class Preview:
    """The members of one shard as a repair by a plan would write them. Use as a context manager.

    A shard that can only be read from front to back, such as a compressed one, is unpacked into the
    folder of temporary files first, and removed at the end.

    Attributes:
        report: what the repair would report; complete when ``members`` has ended.

    Raises SourceError if the shard cannot be read, OSError if there is no room to unpack it.
    """

    def __init__(
        self,
        url: Shard,
        moved: Borders,
        plan: RepairPlan | None = None,
        *,
        allow_pipe: bool = False,
    ) -> None:
        plan = RepairPlan() if plan is None else plan
        self.report = ShardRepair(url)
        with ExitStack() as stack:
            temporary = Path(tempfile.gettempdir())
            source, damage = stack.enter_context(
                seekable(url, temporary, allow_pipe=allow_pipe, here=False)
            )
            if damage:
                self.report.lost.append(damage)
            shard = read_samples(stack, source, moved, plan, self.report)
            self._samples = shard.regrouped.samples
            self._fixer = SampleFixer(shard.source, plan, self.report)
            self._stack = stack.pop_all()

    def __enter__(self) -> "Preview":  # noqa: PYI034 - Self needs Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def members(self) -> Iterator[tuple[str, Field, int]]:
        """Yield name, field and size in bytes of each member, in order. Raises OSError."""
        for member in repaired_members(self._samples, self._fixer, self.report):
            yield member.name, member.field, member.field.size

    def read(self, field: Field, start: int, size: int) -> bytes:
        """Return a part of a field's contents, also if the repair creates them. Raises OSError."""
        return self._fixer.read(field, start, size)
