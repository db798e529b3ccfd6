"""The share of a device that one process with some models needs, measured by loading them."""

from collections.abc import Sequence

from wdsflow.memory.batching.device_names import choose_devices
from wdsflow.memory.batching.probe import Probe
from wdsflow.stages.scores.model.model import Model

from .loaded import LoadedModels, ModelError

# Times the measured need: memory of an allocator is fragmented.
_SPARE = 1.2


def memory_share(models: Sequence[Model], device: str, memory: str | None) -> float | None:
    """Return the share of a device's memory that one process with these models needs.

    None if the models cannot be tried.

    It is the memory in use after all models are loaded, and the most that the largest item of one
    of them takes, with a fifth to spare. No other process may use the device meanwhile.
    """
    loaded = LoadedModels(choose_devices(device)[0], memory)
    probes: list[Probe] = []
    try:
        for model in models:
            probe = loaded.load_and_probe(model)
            if probe is not None:
                probes.append(probe)
    except ModelError:
        return None
    if not probes or not all(probe.fits for probe in probes):
        return None
    device_memory = probes[-1].memory
    used = device_memory.get("resident", device_memory["total"] - device_memory["free"])
    largest = max(probe.peak_growth for probe in probes)
    return _SPARE * (used + largest) / device_memory["total"]
