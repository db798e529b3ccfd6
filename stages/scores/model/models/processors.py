"""Pictures as transformers' image processors make them. Imports numpy: import this module where it is needed."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from .geometry import Geometry
from .model_hub import where
from .prepare import Flip, How, Prepare, decode, mirrored

_KERNELS: dict[int, Any] = {2: "bilinear", 3: "bicubic"}  # Pillow's numbers
_remembered: dict[str, Geometry | None] = {}


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


@lru_cache(maxsize=16)
def processor_of(name: str) -> Any:
    """Return a model's image processor."""
    import transformers

    processors: Any = transformers.AutoImageProcessor
    return processors.from_pretrained(**where(name))


@lru_cache(maxsize=64)
def preparation(name: str, flip: Flip = "", how: How = "fast") -> Prepare | PrepareByProcessor:
    """Return what makes a picture for a model: its own processor, which needs the picture at full size.

    With "fast" it is our own way where that processor only squeezes pictures to a size.
    """
    geometry = None if how == "exact" else _remembered[name] if name in _remembered else squeezed_to(name)
    return PrepareByProcessor(name=name, flip=flip) if geometry is None else Prepare(geometry=geometry, flip=flip)


def squeezed_to(name: str) -> Geometry | None:
    """Return the size that a model's processor squeezes pictures to; None if it does something else."""
    processor = processor_of(name)
    if not _only_squeezes(processor):
        return None
    size = processor.size["height"], processor.size["width"]
    return Geometry(size=size, fit="both", kernel=_KERNELS[int(processor.resample)])


def remember_geometry(name: str, geometry: Geometry | None) -> None:
    """Keep what ``squeezed_to`` returned in another process: this one need not import transformers for it."""
    _remembered[name] = geometry


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


def _only_squeezes(processor: Any) -> bool:
    """Return whether all that a processor does to the shape of a picture is to resize it to a height and a width."""
    try:
        from transformers.image_processing_backends import PilBackend, TorchvisionBackend
    except ImportError:
        return False  # another version of transformers: we do not know what its processors do
    plain = any(
        all(
            getattr(type(processor), each) is getattr(backend, each) for each in ("preprocess", "_preprocess", "resize")
        )
        for backend in (PilBackend, TorchvisionBackend)
    )
    size = processor.size or {}
    fixed = bool(size.get("height") and size.get("width")) and not (
        size.get("shortest_edge") or size.get("longest_edge")
    )
    others = any(getattr(processor, each, None) for each in ("do_center_crop", "do_pad"))
    lists = all(np.shape(each) == (3,) for each in (processor.image_mean, processor.image_std))
    return (
        plain
        and fixed
        and not others
        and bool(processor.do_resize)
        and (lists or not processor.do_normalize)
        and processor.resample in _KERNELS
    )
