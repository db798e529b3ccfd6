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
    """The record of a repair.

    Attributes:
        expected_samples: how many samples the plan promises for all outputs; None if it was not tried.
        recorded_samples: those that an earlier run expected.
    """

    def __init__(self, folder: Path, expected_samples: int | None = None) -> None:
        super().__init__(folder, "repair", "repaired", ShardRepair, _REASONS)
        self.expected_samples = expected_samples
        self.recorded_samples: int | None = None

    def asked_to_dict(self) -> dict[str, object]:
        """Return the stored form of plan, promise and outputs."""
        return super().asked_to_dict() | {"expected_samples": self.expected_samples}

    def asked_from_dict(self, found: dict[str, Any]) -> tuple[dict[str, Any], Iterable[Any]]:
        """Read it. Raises KeyError, TypeError, ValueError."""
        self.recorded_samples = found.get("expected_samples")
        return super().asked_from_dict(found)


def recorded_plan(folder: Path, urls: Sequence[Shard]) -> RepairPlan | None:
    """Return the plan by which these shards were repaired into a folder; None if there is none. Raises FileExistsError."""
    record = RepairRecord(folder)
    record.read()
    if record.options is None or record.outputs != frozenset(output_names(urls)):
        return None
    return replace(RepairPlan.from_dict(record.options), expected_samples=record.recorded_samples)
