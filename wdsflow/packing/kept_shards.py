"""Keeps finished shards from being replaced by fewer samples because files are missing.

Files are missing for instance if a disk is not mounted.

A table that has fewer rows says so itself. A folder without a table does not: its files may have
been moved on purpose.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from wdsflow.table_files.errors import TableError
from wdsflow.text.words import how_many

from .pack_record import PackRecord
from .rows.plan import PackPlan
from .unusable import MISSING


class LosesSamples(TableError):
    """Files are missing now, without which finished shards would be replaced by fewer samples."""

    def __init__(self, folder: Path, before: int, now: int, why: str) -> None:
        shards = f"{folder} holds shards of {how_many(before, 'row')}"
        super().__init__(
            f"{shards}, and now {now or 'none'} would be left{why}; nothing was removed"
        )


def refuse_lost_samples(
    record: PackRecord, plan: PackPlan, listed: Path, folders: Sequence[str]
) -> None:
    """Raise LosesSamples if finished shards have more rows than the plan.

    It is raised if files are missing or the plan has no rows.

    Args:
        record: of the finished shards.
        plan: of all rows.
        listed: the rows that the earlier run left out.
        folders: those that are packed without a table.
    """
    before = 0
    for line in record.lines.values():
        if line.identity is None or (record.folder / line.name).exists():
            before += line.rows
    if before <= plan.count:
        return
    missing = plan.left_out.counts[MISSING]
    if folders:
        raise LosesSamples(
            record.folder, before, plan.count, f": {', '.join(folders)} had more files"
        )
    if not plan.count or missing > _missing_before(listed):
        why = f": {how_many(missing, 'row')} of a missing file" if missing else ""
        raise LosesSamples(record.folder, before, plan.count, why)


def _missing_before(listed: Path) -> int:
    if not listed.exists():
        return 0
    with listed.open("rb") as lines:
        return sum(json.loads(line)["reason"] == MISSING for line in lines)
