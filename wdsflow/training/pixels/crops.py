"""Random crops as torchvision draws them, of a generator of their own. Imports torch: import this where it is needed."""

import math
import threading
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray

Part = tuple[int, int, int, int]  # left, top, right, bottom

_TRIES = 10
_BITS = np.uint64(0xFFFFFF)
_local = threading.local()


def random_part(width: int, height: int, scale: tuple[float, float], ratio: tuple[float, float], seed: int) -> Part:
    """Return the part that ``RandomResizedCrop.get_params`` draws after ``torch.manual_seed(seed)``.

    Draw by draw the same numbers, in the same precision; torch's global generator stays as it is. The numbers come
    from numpy's generator, which is the same Mersenne twister: each of torch's thirty small calls would let go of
    Python's lock, and threads would spend more time waiting for it than working.
    """
    draws = _draws(seed)
    area = height * width
    low, high = _logarithms(ratio)
    wanted, shapes = _uniform(draws[0:-2:2], *scale).tolist(), np.exp(_uniform(draws[1:-2:2], low, high)).tolist()
    numbers = draws.tolist()
    for attempt in range(_TRIES):
        target, shape = area * wanted[attempt], shapes[attempt]
        across, down = round(math.sqrt(target * shape)), round(math.sqrt(target / shape))
        if 0 < across <= width and 0 < down <= height:
            top = numbers[2 * attempt + 2] % (height - down + 1)
            left = numbers[2 * attempt + 3] % (width - across + 1)
            return left, top, left + across, top + down
    return _central(width, height, ratio)


def _draws(seed: int) -> NDArray[np.uint64]:
    """Return the first numbers of 32 bits that torch's generator gives after it was seeded."""
    pair = getattr(_local, "pair", None)
    if pair is None:
        bits = np.random.MT19937()
        pair = _local.pair = bits, np.random.RandomState(bits)
    bits, state = pair
    state.seed(seed & 0xFFFFFFFF)  # torch, too, takes no more of it
    draws: NDArray[np.uint64] = bits.random_raw(2 * _TRIES + 2)
    return draws


def _uniform(draws: NDArray[np.uint64], low: float, high: float) -> NDArray[np.float32]:
    """Return what torch's ``uniform_`` makes of draws: 24 bits of each, one multiplication and addition in one step."""
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


def _central(width: int, height: int, ratio: tuple[float, float]) -> Part:
    """Return what is taken where ten draws were too large: the centre, in the nearest shape that is allowed."""
    across, down = width, height
    if width / height < min(ratio):
        down = round(width / min(ratio))
    elif width / height > max(ratio):
        across = round(height * max(ratio))
    top, left = (height - down) // 2, (width - across) // 2
    return left, top, left + across, top + down
