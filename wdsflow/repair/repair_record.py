"""The record of a repair in its output folder, with the plan and what it promised."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from wdsflow.records.output_record import OutputRecord
from wdsflow.shards.shard import Shard
from wdsflow.shards.shard_names import output_names

from .repair_plan import RepairPlan
from .repair_report import ShardRepair

_REASONS = {"code": "another wdsflow repaired it", "moved": "other members move at its borders"}


class RepairRecord(OutputRecord[ShardRepair]):
    """The record of a repair by a plan.

    Attributes:
        recorded: what an earlier run knew of its plan, beyond the changes: by names of fields of
            ``RepairPlan``.
    """

    def __init__(self, folder: Path, plan: RepairPlan | None = None) -> None:
        super().__init__(folder, "repair", "repaired", ShardRepair, _REASONS)
        self._plan = plan or RepairPlan()
        self.recorded: dict[str, Any] = {}

    def request_to_dict(self) -> dict[str, object]:
        """Return the stored form of plan, promise and outputs."""
        plan = self._plan
        planned = {
            "guessed_from": plan.guessed_from,
            "expected_samples": plan.expected_samples,
            "readers": list(plan.readers),
        }
        return super().request_to_dict() | {"planned": planned}

    def request_from_dict(self, request: dict[str, Any]) -> tuple[dict[str, Any], Iterable[Any]]:
        """Read it. Raises KeyError, TypeError, ValueError."""
        planned = request["planned"]
        self.recorded = {**planned, "readers": tuple(planned["readers"])}
        return super().request_from_dict(request)


def recorded_plan(folder: Path, urls: Sequence[Shard], readers: Sequence[str]) -> RepairPlan | None:
    """Return the plan by which these shards were repaired into a folder, None without one.

    None too if the plan is for other readers.

    Raises FileExistsError.
    """
    record = RepairRecord(folder)
    record.read()
    if record.options is None or record.outputs != frozenset(output_names(urls)):
        return None
    plan = replace(RepairPlan.from_dict(record.options), **record.recorded)
    return plan if plan.readers == tuple(readers) else None
