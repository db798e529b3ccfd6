"""Levels to normalised floats. Imports numpy only: torch's own would take a pool of threads for each thread of ours."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


def normalise(items: Sequence[NDArray[np.uint8]], mean: Sequence[float], std: Sequence[float], out: Floats) -> None:
    """Write (level / 255 - mean) / std of arrays (3, height, width) into ``out`` (n, 3, height, width).

    In two steps of float32, at most 1e-6 from torchvision's ``ToTensor`` and ``Normalize``.
    """
    deviation = 255 * np.array(std, np.float64).reshape(3, 1, 1)
    factor = (1 / deviation).astype(np.float32)
    offset = (-255 * np.array(mean, np.float64).reshape(3, 1, 1) / deviation).astype(np.float32)
    for item, place in zip(items, out, strict=True):
        np.multiply(item, factor, out=place, dtype=np.float32)
        np.add(place, offset, out=place)


def normalise_as_torchvision(
    items: Sequence[NDArray[np.uint8]], mean: Sequence[float], std: Sequence[float], out: Floats
) -> None:
    """Do the same by the steps of ``ToTensor`` and ``Normalize``: equal to theirs in every bit."""
    means, deviations = (np.array(values, np.float32).reshape(3, 1, 1) for values in (mean, std))
    for item, place in zip(items, out, strict=True):
        np.divide(item, np.float32(255), out=place, dtype=np.float32)
        np.subtract(place, means, out=place)
        np.divide(place, deviations, out=place)
