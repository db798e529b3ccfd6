"""Random crops as torchvision draws them, of a generator of one's own. Imports torch: import this where it is needed."""

import math
from functools import lru_cache

import torch

Part = tuple[int, int, int, int]  # left, top, right, bottom


def random_part(width: int, height: int, scale: tuple[float, float], ratio: tuple[float, float], seed: int) -> Part:
    """Return the part that ``RandomResizedCrop.get_params`` draws after ``torch.manual_seed(seed)``.

    Draw by draw the same numbers, in the same precision; torch's global generator stays as it is.
    """
    generator = torch.Generator()
    generator.manual_seed(seed)
    number = torch.empty(1)
    area = height * width
    low, high = _logarithms(ratio)
    for _ in range(10):
        target = area * number.uniform_(scale[0], scale[1], generator=generator).item()
        shape = torch.exp(number.uniform_(low, high, generator=generator)).item()
        across, down = round(math.sqrt(target * shape)), round(math.sqrt(target / shape))
        if 0 < across <= width and 0 < down <= height:
            top = int(torch.randint(0, height - down + 1, (1,), generator=generator).item())
            left = int(torch.randint(0, width - across + 1, (1,), generator=generator).item())
            return left, top, left + across, top + down
    return _central(width, height, ratio)


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
