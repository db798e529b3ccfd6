"""The time that models took in a run.

The processes that run models note it, and the folder of the run keeps it.

Times are in no ledger: ledgers of two runs are the same, byte for byte.
"""

import json
import os
import platform
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from wdsflow.shards.atomic import write_file
from wdsflow.stages.scores.model.model import Model

# Of a model, by its ``repr``: items, and seconds.
ModelTimes = Mapping[str, tuple[int, float]]


class ModelCost(NamedTuple):
    """What a model took in a run.

    ``model``: the digest of its identity. ``called``: its name. ``where``: the device and its name.
    """

    model: str
    called: str
    where: str
    items: int
    seconds: float

    @property
    def seconds_per_item(self) -> float:
        """Seconds of an item."""
        return self.seconds / self.items


def device_and_name(device: str) -> str:
    """Return a device with the name of its processor: "cpu: AMD EPYC"."""
    name = ""
    if device.startswith("cuda"):
        import torch

        name = torch.cuda.get_device_name(device)
    elif device == "cpu":
        name = _processor()
    return f"{device}: {name}" if name else device


def write_model_times(path: Path, where: str, times: ModelTimes) -> None:
    """Write what models took in this process so far, for its parent process.

    Raises OSError.
    """
    part = path.with_suffix(".part")
    part.write_text(json.dumps({"where": where, "spent": times}))
    os.replace(part, path)


def read_model_times(path: Path) -> tuple[str, ModelTimes]:
    """Return what ``write_model_times`` wrote; nothing if it wrote none."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        noted = json.loads(path.read_bytes())
        times: dict[str, tuple[int, float]] = {}
        for name, (items, seconds) in noted["spent"].items():
            times[name] = int(items), float(seconds)
        return str(noted["where"]), times
    return "", {}


def costs_of(models: Mapping[str, Model], where: str, times: ModelTimes) -> list[ModelCost]:
    """Return the costs of models, by digests of their identities, from the times of models."""
    costs: list[ModelCost] = []
    for digest, model in models.items():
        if repr(model) in times:
            items, seconds = times[repr(model)]
            costs.append(ModelCost(digest, model.display_name(), where, items, seconds))
    return costs


def add_costs(path: Path, costs: Iterable[ModelCost]) -> None:
    """Add costs to a file. Raises OSError."""
    sums: dict[tuple[str, str], ModelCost] = {}
    for cost in (*read_costs([path]), *costs):
        key = cost.model, cost.where
        total = cost
        if key in sums:
            items = sums[key].items + cost.items
            seconds = sums[key].seconds + cost.seconds
            total = cost._replace(items=items, seconds=seconds)
        sums[key] = total
    if not sums:
        return
    rows = [cost._asdict() for cost in sums.values()]
    write_file(path, json.dumps(rows, indent=1).encode() + b"\n")


def read_costs(paths: Iterable[Path]) -> list[ModelCost]:
    """Return the costs in some files; damaged ones have none."""
    costs: list[ModelCost] = []
    for path in paths:
        with suppress(OSError, ValueError, TypeError):
            file_costs = [ModelCost(**row) for row in json.loads(path.read_bytes())]
            costs += [cost for cost in file_costs if cost.items > 0 and cost.seconds >= 0]
    return costs


def _processor() -> str:
    """Return the name of the processor, by Linux or by Python."""
    with suppress(OSError):
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
        for line in text.splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
