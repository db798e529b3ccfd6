"""Pictures as the input of a model of transformers, prepared as its own image processor does."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ...picture_decoding import decode_image
from ..model_fact import ModelFact
from ..pictures.geometry import Geometry
from ..pictures.prepare import Flip, Prepare, Scale, mirrored
from .loading import processor_of

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

    from ....imaging.torch_kernel import Kernel
    from ..pictures.prepare import Pixels

# By Pillow's numbers.
_KERNELS: "dict[int, Kernel]" = {2: "bilinear", 3: "bicubic"}
# A processor that overrides one of these may do anything.
_METHODS = ("preprocess", "_preprocess", "resize")


@ModelFact
def resize_geometry(name: str) -> Geometry | None:
    """Return how a model's processor resizes pictures.

    None if it does more, or is of an unknown kind.
    """
    processor = processor_of(name)
    if not _is_plain(processor):
        return None
    size = _resized_size(processor)
    if size is None:
        return None
    kernel = _KERNELS.get(processor.resample)
    if kernel is None:
        return None
    return Geometry(size=size, fit="both", kernel=kernel)


@dataclass(frozen=True, kw_only=True)
class PrepareByProcessor:
    """Makes an array (3, height, width) of float32 by the model's processor.

    The image is decoded at full size.
    """

    name: str
    flip: Flip = ""

    def __call__(self, data: bytes, budget: int) -> "NDArray[np.float32]":
        """Return the array, normalised. Raises ScoreError."""
        return self.of(decode_image(data, budget, "exact"))

    def of(self, pixels: "Pixels") -> "NDArray[np.float32]":
        """Return the array for a decoded picture (height, width, 3)."""
        import numpy as np
        from PIL import Image

        image = Image.fromarray(np.ascontiguousarray(mirrored(pixels, self.flip)))
        inputs = processor_of(self.name)(images=image, return_tensors="np")
        return np.asarray(inputs["pixel_values"][0], np.float32)


@lru_cache(maxsize=64)
def preparation(name: str, flip: Flip = "", scale: Scale = "fast") -> Prepare | PrepareByProcessor:
    """Return the preparation of pictures for a model.

    It uses the model's own processor, which needs the picture at full size.

    With "fast", it is ``Prepare`` if that processor only resizes pictures.
    """
    geometry = resize_geometry(name) if scale == "fast" else None
    if geometry is None:
        return PrepareByProcessor(name=name, flip=flip)
    return Prepare(geometry=geometry, flip=flip)


def black_picture(name: str) -> "Pixels | None":
    """Return a model's input for a black picture (3, height, width), uint8.

    None if inputs differ in size.
    """
    import numpy as np

    prepare = preparation(name)
    if not isinstance(prepare, Prepare):
        return None
    return np.zeros((3, *prepare.geometry.size), np.uint8)


def pixel_values(
    name: str, batch: "Sequence[NDArray[np.uint8 | np.float32]]", device: str
) -> "torch.Tensor":
    """Return a tensor (n, 3, height, width) of float32 on a device.

    Bytes are scaled and normalised, floats are not.
    """
    import numpy as np
    import torch

    dtypes = {array.dtype for array in batch}
    # Of scores with different ``decode``.
    if len(dtypes) > 1:
        return torch.cat([pixel_values(name, [array], device) for array in batch])
    pixels = torch.from_numpy(np.stack(batch)).to(device)
    if pixels.dtype != torch.uint8:
        return pixels
    processor = processor_of(name)
    pixels = pixels.float()
    if processor.do_rescale:
        pixels.mul_(processor.rescale_factor)
    if processor.do_normalize:
        shape = (1, 3, 1, 1)
        mean = torch.tensor(processor.image_mean, device=device).view(shape)
        deviation = torch.tensor(processor.image_std, device=device).view(shape)
        pixels.sub_(mean).div_(deviation)
    return pixels


def _is_plain(processor: Any) -> bool:
    """Return whether a processor works as transformers' base classes do.

    They resize, rescale and normalise.
    """
    try:
        from transformers.image_processing_backends import PilBackend, TorchvisionBackend
    except ImportError:
        # A version of transformers whose processors are unknown.
        return False
    kind = type(processor)
    for backend in (PilBackend, TorchvisionBackend):
        if all(getattr(kind, method) is getattr(backend, method) for method in _METHODS):
            return True
    return False


def _resized_size(processor: Any) -> tuple[int, int] | None:
    """Return the (height, width) to which a plain processor resizes.

    None if it keeps the aspect ratio, crops, pads or scales otherwise.
    """
    size = processor.size or {}
    if size.get("shortest_edge") or size.get("longest_edge"):
        return None
    if getattr(processor, "do_center_crop", None) or getattr(processor, "do_pad", None):
        return None
    if processor.do_normalize and not _has_mean_of_channels(processor):
        return None
    height, width = size.get("height"), size.get("width")
    if not processor.do_resize or not height or not width:
        return None
    return height, width


def _has_mean_of_channels(processor: Any) -> bool:
    import numpy as np

    return all(np.shape(values) == (3,) for values in (processor.image_mean, processor.image_std))
