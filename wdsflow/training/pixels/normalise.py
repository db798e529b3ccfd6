"""Levels to normalised floats. Imports numpy only: torch's own would take a pool of threads for each thread of ours."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


def normalise(items: Sequence[NDArray[np.uint8]], mean: Sequence[float], std: Sequence[float], out: Floats) -> None:
    """Write (level / 255 - mean) / std of arrays (3, height, width) into ``out`` (n, 3, height, width).

    In two steps of float32, at most 1e-6 from torchvision's ``ToTensor`` and ``Normalize``.
    """
    steps = [
        (np.float32(1 / (255 * deviation)), np.float32(-middle / deviation)) for middle, deviation in _pairs(mean, std)
    ]
    for item, place in zip(items, out, strict=True):
        for channel, (factor, offset) in enumerate(steps):
            plane = place[channel]
            # Turned into floats first: numpy multiplies whole vectors only where it need not convert.
            plane[...] = item[channel]
            np.multiply(plane, factor, out=plane)
            np.add(plane, offset, out=plane)


def normalise_as_torchvision(
    items: Sequence[NDArray[np.uint8]], mean: Sequence[float], std: Sequence[float], out: Floats
) -> None:
    """Do the same by the steps of ``ToTensor`` and ``Normalize``: equal to theirs in every bit."""
    steps = [(np.float32(middle), np.float32(deviation)) for middle, deviation in _pairs(mean, std)]
    for item, place in zip(items, out, strict=True):
        for channel, (middle, deviation) in enumerate(steps):
            plane = place[channel]
            plane[...] = item[channel]
            np.divide(plane, np.float32(255), out=plane)
            np.subtract(plane, middle, out=plane)
            np.divide(plane, deviation, out=plane)


def _pairs(mean: Sequence[float], std: Sequence[float]) -> Iterator[tuple[float, float]]:
    return zip(mean, std, strict=True)
