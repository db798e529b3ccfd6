"""Pictures as transformers' image processors make them. Imports numpy: import this module where it is needed."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from .model_hub import processor_of
from .plain_resize import squeezed_to
from .prepare import Flip, How, Prepare, decode, mirrored


@dataclass(frozen=True, kw_only=True)
class PrepareByProcessor:
    """Makes an array (3, height, width) of float32 of an image, by the model's own processor, decoded at full size."""

    name: str
    flip: Flip = ""

    def __call__(self, data: bytes, budget: int) -> Any:
        """Return the array, normalised. Raises ScoreError."""
        return self.of(decode(data, budget, "exact"))

    def of(self, pixels: Any) -> Any:
        """Return the array for a picture that is decoded, (height, width, 3)."""
        from PIL import Image

        image = Image.fromarray(np.ascontiguousarray(mirrored(pixels, self.flip)))
        return processor_of(self.name)(images=image, return_tensors="np")["pixel_values"][0].astype(np.float32)


@lru_cache(maxsize=64)
def preparation(name: str, flip: Flip = "", how: How = "fast") -> Prepare | PrepareByProcessor:
    """Return what makes a picture for a model: its own processor, which needs the picture at full size.

    With "fast" it is our own way where that processor only squeezes pictures to a size.
    """
    geometry = None if how == "exact" else squeezed_to(name)
    return PrepareByProcessor(name=name, flip=flip) if geometry is None else Prepare(geometry=geometry, flip=flip)


def black_picture(name: str) -> Any:
    """Return what a model takes of a black picture, where all have the same size; None where they have not."""
    prepare = preparation(name)
    return np.zeros((3, *prepare.geometry.size), np.uint8) if isinstance(prepare, Prepare) else None


def values(name: str, batch: Sequence[Any], device: str) -> Any:
    """Return a tensor (n, 3, height, width) of float32 on a device: bytes are scaled and normalised, the rest is."""
    import torch

    if len({each.dtype for each in batch}) > 1:  # of scores that decode in two ways
        return torch.cat([values(name, [each], device) for each in batch])
    pixels = torch.from_numpy(np.stack(batch)).to(device)
    if pixels.dtype != torch.uint8:
        return pixels
    processor, shape = processor_of(name), (1, 3, 1, 1)
    pixels = pixels.float()
    if processor.do_rescale:
        pixels.mul_(processor.rescale_factor)
    if processor.do_normalize:
        mean, std = (torch.tensor(each, device=device) for each in (processor.image_mean, processor.image_std))
        pixels.sub_(mean.view(shape)).div_(std.view(shape))
    return pixels
