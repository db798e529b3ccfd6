"""The random part of an image that OpenCLIP's training crops, drawn as torchvision does.

Imports torch.
"""

import math
import threading
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray

# Left, top, right, bottom.
Part = tuple[int, int, int, int]
# Attempts of RandomResizedCrop.
_TRIES = 10
# Of a draw, that torch uses for a float.
_BITS = np.uint64(0xFFFFFF)
# The generators of each thread.
_local = threading.local()


def random_part(
    width: int, height: int, scale: tuple[float, float], ratio: tuple[float, float], seed: int
) -> Part:
    """Return the part that ``RandomResizedCrop.get_params`` would draw.

    It is drawn as after ``torch.manual_seed(seed)``.

    The numbers equal torch's, draw by draw and bit by bit; torch's global generator is not changed.
    They come from numpy's generator, the same Mersenne twister: each of torch's thirty small calls
    would release Python's lock, and threads would spend more time waiting for it than working.
    """
    draws = _draws(seed)
    # torch draws area and shape of each attempt, and the position if they fit.
    area_shares = _uniform(draws[0:-2:2], *scale).tolist()
    shapes = np.exp(_uniform(draws[1:-2:2], *_logarithms(ratio))).tolist()
    numbers = draws.tolist()
    for attempt in range(_TRIES):
        area = height * width * area_shares[attempt]
        shape = shapes[attempt]
        across = round(math.sqrt(area * shape))
        down = round(math.sqrt(area / shape))
        if 0 < across <= width and 0 < down <= height:
            top = numbers[2 * attempt + 2] % (height - down + 1)
            left = numbers[2 * attempt + 3] % (width - across + 1)
            return left, top, left + across, top + down
    # All ten draws were too large: the centre, in the nearest allowed shape.
    across, down = width, height
    if width / height < min(ratio):
        down = round(width / min(ratio))
    elif width / height > max(ratio):
        across = round(height * max(ratio))
    top, left = (height - down) // 2, (width - across) // 2
    return left, top, left + across, top + down


def _draws(seed: int) -> NDArray[np.uint64]:
    """Return the first 32-bit numbers of torch's generator after seeding."""
    generators = getattr(_local, "generators", None)
    if generators is None:
        bits = np.random.MT19937()
        generators = bits, np.random.RandomState(bits)
        _local.generators = generators
    bits, state = generators
    # torch also uses 32 bits only.
    state.seed(seed & 0xFFFFFFFF)
    draws: NDArray[np.uint64] = bits.random_raw(2 * _TRIES + 2)
    return draws


def _uniform(draws: NDArray[np.uint64], low: float, high: float) -> NDArray[np.float32]:
    """Return the result of torch's ``uniform_`` for draws.

    24 bits of each draw are used, in a fused multiply-add.
    """
    start, step = _steps(low, high)
    return ((draws & _BITS) * step + start).astype(np.float32)


@lru_cache
def _steps(low: float, high: float) -> tuple[float, float]:
    start, stop = np.float32(low), np.float32(high)
    return float(start), float(stop - start) * 2.0**-24


@lru_cache
def _logarithms(ratio: tuple[float, float]) -> tuple[float, float]:
    low, high = torch.log(torch.tensor(ratio)).tolist()
    return low, high
