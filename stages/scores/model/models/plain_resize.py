"""Whether transformers' image processor of a model only squeezes pictures to a size."""

from typing import Any

from .geometry import Geometry
from .model_fact import ModelFact
from .model_hub import processor_of

_KERNELS: dict[int, Any] = {2: "bilinear", 3: "bicubic"}  # Pillow's numbers


def _squeezed_to(name: str) -> Geometry | None:
    """Return the size that a model's processor squeezes pictures to; None if it does something else."""
    processor = processor_of(name)
    if not _only_squeezes(processor):
        return None
    size = processor.size["height"], processor.size["width"]
    return Geometry(size=size, fit="both", kernel=_KERNELS[int(processor.resample)])


def _only_squeezes(processor: Any) -> bool:
    """Return whether all that a processor does to the shape of a picture is to resize it to a height and a width."""
    import numpy as np

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


squeezed_to = ModelFact(_squeezed_to)
