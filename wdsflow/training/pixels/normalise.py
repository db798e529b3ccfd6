"""Pixels as normalised floats, as torchvision's ToTensor and Normalize make them."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from wdsflow.stages.imaging.boxes import Pixels


def normalise(
    items: Sequence[Pixels],
    mean: Sequence[float],
    std: Sequence[float],
    out: NDArray[np.float32],
    *,
    exact: bool,
) -> None:
    """Normalise arrays (3, height, width) into ``out`` (n, 3, height, width).

    The result is (level / 255 - mean) / std.

    ``exact``: in the three steps of torchvision's ``ToTensor`` and ``Normalize``, equal to theirs
    in every bit. Otherwise in two steps of float32, at most 1e-6 from theirs.
    """
    for item, target in zip(items, out, strict=True):
        for levels, plane, middle, deviation in zip(item, target, mean, std, strict=True):
            # Converted to floats first: numpy vectorises only operations without a conversion.
            plane[...] = levels
            if exact:
                np.divide(plane, np.float32(255), out=plane)
                np.subtract(plane, np.float32(middle), out=plane)
                np.divide(plane, np.float32(deviation), out=plane)
            else:
                np.multiply(plane, np.float32(1 / (255 * deviation)), out=plane)
                np.add(plane, np.float32(-middle / deviation), out=plane)
