"""The states of the random generators that a training loop draws from. Imports torch: import it where it is needed."""

import random
from typing import Any

import torch

_PYTHON_VERSION = 3  # of random.getstate()


def capture(device: str | None = None) -> dict[str, Any]:
    """Return the states of Python's, numpy's and torch's generators and of the device's, as lists and tensors.

    They can be stored with ``torch.save`` and read back with ``weights_only=True``.
    """
    import numpy as np

    _, numbers, normal = random.getstate()
    name, key, position, has_gauss, gauss = np.random.get_state(legacy=True)  # noqa: NPY002 - others draw from it
    states: dict[str, Any] = {
        "python": [list(numbers), normal],
        "numpy": [str(name), [int(word) for word in key], int(position), int(has_gauss), float(gauss)],
        "torch": torch.get_rng_state(),
    }
    if device is not None and _is_cuda(device):
        states["cuda"] = torch.cuda.get_rng_state(device)
    return states


def restore(states: dict[str, Any], device: str | None = None) -> None:
    """Put the generators into the states that ``capture`` returned; a device that had none keeps its own."""
    import numpy as np

    numbers, normal = states["python"]
    random.setstate((_PYTHON_VERSION, tuple(numbers), normal))
    name, key, *rest = states["numpy"]
    np.random.set_state((name, np.array(key, dtype=np.uint32), *rest))  # noqa: NPY002
    torch.set_rng_state(states["torch"])
    if "cuda" in states and device is not None and _is_cuda(device):
        torch.cuda.set_rng_state(states["cuda"], device)


def _is_cuda(device: str) -> bool:
    return device.startswith("cuda") and torch.cuda.is_available()
