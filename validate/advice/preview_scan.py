"""Scans a repaired shard that is not written."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from wdsflow.repair.borders import UNMOVED, Borders
from wdsflow.repair.preview import Preview
from wdsflow.repair.repair_plan import RepairPlan
from wdsflow.scan.evidence import ScanOptions, ShardEvidence
from wdsflow.scan.runs import RunCollector
from wdsflow.scan.scanner import Scanner
from wdsflow.shards.shard import Shard
from wdsflow.shards.tar.members import Stop
from wdsflow.shards.tar.walk import MemberBatch, Occurrences, Row

if TYPE_CHECKING:
    from wdsflow.repair.sample_fixer import Field

# The error of a shard whose repair cannot be predicted.
NOT_TRIED = "not-tried"
# Members of one batch.
_BATCH = 1_000
# No window: contents are read individually.
_NO_WINDOW = 1 << 62


def scan_preview(
    url: Shard, options: ScanOptions, *, moved: Borders = UNMOVED, plan: RepairPlan | None = None
) -> ShardEvidence:
    """Scan a shard as a repair would write it.

    The error of the evidence is NOT_TRIED if that cannot be known.
    """
    shard = ShardEvidence(url)
    try:
        with Preview(url, moved, plan, allow_pipe=options.allow_pipe) as preview:
            walk = _PreviewWalk(preview)
            scan = Scanner(shard, options, RunCollector())
            for batch in walk:
                scan.batch(batch, walk)
            scan.finish(walk)
            shard.fixed = preview.report.fixed
    except (OSError, ValueError) as error:
        shard.fail(NOT_TRIED, str(error))
    return shard


class _PreviewWalk:
    """The members of a preview, like those of a walk over the repaired tar."""

    def __init__(self, preview: Preview) -> None:
        self.preview = preview
        self.stop = Stop("end", 0, "")
        self.seen: dict[str, Occurrences] = {}
        self.fields: list[Field] = []

    def read(self, member: Row, start: int, size: int) -> bytes:
        """Return a part of the contents of a member of the latest batch."""
        return self.preview.read(self.fields[member[2]], start, size)

    def __iter__(self) -> Iterator[MemberBatch]:
        rows: list[Row] = []
        for position, (name, field, size) in enumerate(self.preview.members()):
            rows.append((name, size, len(self.fields), position, "file"))
            self.fields.append(field)
            if len(rows) == _BATCH:
                yield MemberBatch(rows, b"", _NO_WINDOW, is_past_stop=False)
                rows, self.fields = [], []
        if rows:
            yield MemberBatch(rows, b"", _NO_WINDOW, is_past_stop=False)
