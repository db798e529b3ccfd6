"""Where models run, as a value that travels to workers; how many items are sent there together."""

from dataclasses import dataclass, field
from typing import Any

from wdsflow.stages.scores.model.model import Model

# Bytes of the items that a worker sends together. A CPU is not faster with more than 139 pictures
# of 224 x 224, a GPU is: 512 keep its processors busy. Each worker holds two windows, the process
# of a model two on a CPU and three on a GPU.
WINDOW = 20 << 20
GPU_WINDOW = 80 << 20


@dataclass(frozen=True)
class ModelLocation:
    """Where models run: in one process per device, or in the worker itself.

    They run in the worker if there are no addresses.

    Attributes:
        addresses: of the processes.
        key: authenticates workers.
        device: where a worker loads models.
        memory: its limit on a GPU ("8GiB", "80%", None for all free memory).
        facts: for decoders.
        models_to_start: a worker without an address starts a process, which loads these first.
        window: bytes of items that are sent together.
        devices: names of the devices, for messages.
    """

    addresses: tuple[str, ...] = ()
    key: bytes = b""
    device: str = "auto"
    memory: str | None = None
    facts: tuple[tuple[Model, Any], ...] = field(default=(), compare=False)
    models_to_start: tuple[Model, ...] | None = None
    window: int = WINDOW
    devices: tuple[str, ...] = field(default=(), compare=False)


def window_of(*devices: str) -> int:
    """Return the bytes of items that are sent together to models on these devices."""
    if any(device.startswith("cuda") for device in devices):
        return GPU_WINDOW
    return WINDOW


def begins_small(window: int) -> bool:
    """Return whether the first windows of a shard are small, as on a CPU.

    ``window``: see ``window_of``.
    """
    return window < GPU_WINDOW
