"""Finished shards are not replaced by fewer samples because files are missing, as when a disk is not mounted."""

import json
from pathlib import Path

from wdsflow.table_files.errors import TableError
from wdsflow.text.words import how_many

from .pack_record import PackRecord
from .plan import PackPlan
from .unusable import MISSING


class LosesSamples(TableError):
    """Files are missing now, without which finished shards would be replaced by fewer samples."""

    def __init__(self, folder: Path, before: int, now: int, missing: int) -> None:
        shards = f"{folder} holds {how_many(before, 'sample')} of an earlier run"
        why = f": {how_many(missing, 'row')} of a missing file" if missing else ""
        super().__init__(f"{shards}, and now {now or 'none'} would be left{why}; nothing was removed")


def refuse_loss(record: PackRecord, plan: PackPlan, listed: Path) -> None:
    """Raise LosesSamples if finished shards have more samples than the plan, because files are missing or it has none.

    Args:
        record: of the finished shards.
        plan: of all rows.
        listed: the rows that the earlier run left out.
    """
    before = sum(record.samples(list(record.lines.values())).values())
    if before <= plan.count:
        return
    missing = plan.left_out.counts[MISSING]
    if not plan.count or missing > _missing_before(listed):
        raise LosesSamples(record.folder, before, plan.count, missing)


def _missing_before(listed: Path) -> int:
    if not listed.exists():
        return 0
    with listed.open("rb") as lines:
        return sum(json.loads(line)["reason"] == MISSING for line in lines)
