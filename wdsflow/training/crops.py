"""Random crops as torchvision draws them, of a generator of one's own. Imports torch: import this where it is needed."""

import math
import threading
from functools import lru_cache

import numpy as np
import torch

Part = tuple[int, int, int, int]  # left, top, right, bottom

_TRIES = 10
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
    for attempt in range(_TRIES):
        target = area * _uniform(draws[2 * attempt], *scale)
        shape = float(np.exp(np.float32(_uniform(draws[2 * attempt + 1], low, high))))
        across, down = round(math.sqrt(target * shape)), round(math.sqrt(target / shape))
        if 0 < across <= width and 0 < down <= height:
            top = draws[2 * attempt + 2] % (height - down + 1)
            left = draws[2 * attempt + 3] % (width - across + 1)
            return left, top, left + across, top + down
    return _central(width, height, ratio)


def _draws(seed: int) -> list[int]:
    """Return the first numbers of 32 bits that torch's generator gives after it was seeded."""
    generator = getattr(_local, "generator", None)
    if generator is None:
        generator = _local.generator = np.random.RandomState()
    generator.seed(seed & 0xFFFFFFFF)  # torch, too, takes no more of it
    draws: list[int] = generator.randint(0, 1 << 32, size=2 * _TRIES + 2, dtype=np.uint32).tolist()
    return draws


def _uniform(draw: int, low: float, high: float) -> float:
    """Return what torch's ``uniform_`` makes of a draw: 24 bits of it, one multiplication and addition in one step."""
    start, step = _steps(low, high)
    return float(np.float32((draw & 0xFFFFFF) * step + start))


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
