"""What models took in a run: noted by the processes that run them, and kept in the folder of the run.

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
Spent = Mapping[str, tuple[int, float]]


class ModelCost(NamedTuple):
    """What a model took. ``model``: the digest of its identity; ``called``: its name; ``where``: device and its name."""

    model: str
    called: str
    where: str
    items: int
    seconds: float

    @property
    def each(self) -> float:
        """Seconds of an item."""
        return self.seconds / self.items


def where_of(device: str) -> str:
    """Return a device with the name of its processor: "cpu: AMD EPYC"."""
    name = ""
    if device.startswith("cuda"):
        import torch

        name = torch.cuda.get_device_name(device)
    elif device == "cpu":
        name = _processor()
    return f"{device}: {name}" if name else device


def _processor() -> str:
    with suppress(OSError):
        for line in (
            Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        ):
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def note_spent(path: Path, where: str, spent: Spent) -> None:
    """Write what models took in this process so far, for the process that started it. Raises OSError."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps({"where": where, "spent": spent}))
    os.replace(part, path)


def spent_there(path: Path) -> tuple[str, Spent]:
    """Return what ``note_spent`` wrote; nothing if it wrote none."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        noted = json.loads(path.read_bytes())
        return str(noted["where"]), {
            name: (int(items), float(each)) for name, (items, each) in noted["spent"].items()
        }
    return "", {}


def costs_of(models: Mapping[str, Model], where: str, spent: Spent) -> list[ModelCost]:
    """Return the costs of models, by digests of their identities, from what was spent."""
    return [
        ModelCost(digest, model.called(), where, *spent[repr(model)])
        for digest, model in models.items()
        if repr(model) in spent
    ]


def add_costs(path: Path, costs: Iterable[ModelCost]) -> None:
    """Add costs to a file. Raises OSError."""
    sums: dict[tuple[str, str], ModelCost] = {}
    for cost in (*read_costs([path]), *costs):
        before = sums.get((cost.model, cost.where))
        items, seconds = (before.items, before.seconds) if before is not None else (0, 0.0)
        sums[cost.model, cost.where] = cost._replace(
            items=items + cost.items, seconds=seconds + cost.seconds
        )
    if sums:
        write_file(
            path, json.dumps([cost._asdict() for cost in sums.values()], indent=1).encode() + b"\n"
        )


def read_costs(paths: Iterable[Path]) -> list[ModelCost]:
    """Return the costs in some files; damaged ones have none."""
    found: list[ModelCost] = []
    for path in paths:
        with suppress(OSError, ValueError, TypeError):
            costs = [ModelCost(**each) for each in json.loads(path.read_bytes())]
            found += [cost for cost in costs if cost.items > 0 and cost.seconds >= 0]
    return found
