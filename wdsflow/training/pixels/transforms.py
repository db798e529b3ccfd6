"""Recognises OpenCLIP's transforms by their structure.

It does not import OpenCLIP or torchvision.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Kernel = Literal["bicubic", "bilinear"]
# Height, width.
Size = tuple[int, int]
Triple = tuple[float, float, float]
# From the user's torchvision, which is not imported.
Step: TypeAlias = Any

_TORCHVISION = "torchvision.transforms.transforms"
_OPENCLIP = "open_clip.transform"
_KERNELS: tuple[Kernel, ...] = ("bicubic", "bilinear")
# Steps that are OpenCLIP's own.
_OF_OPENCLIP = frozenset({"ResizeKeepRatio", "CenterCropOrPad"})
_RECOGNISED = (
    ["RandomResizedCrop"],
    ["Resize"],
    ["Resize", "CenterCrop"],
    ["ResizeKeepRatio", "CenterCrop"],
    ["ResizeKeepRatio", "CenterCropOrPad"],
)


@dataclass(frozen=True, kw_only=True)
class Transform:
    """The last steps of all known transforms: RGB, floats, normalisation."""

    size: Size
    kernel: Kernel
    mean: Triple
    std: Triple


@dataclass(frozen=True, kw_only=True)
class ResizeAndCrop(Transform):
    """Resize the whole picture, then cut its centre out, or pad it with ``fill``, to ``size``.

    ``fit`` "short": the short side becomes ``size[0]``; "both": both sides become ``size``,
    regardless of shape; "ratio": as timm's ResizeKeepRatio with ``longest``, 1 to show all of the
    picture, 0 to fill the size.
    """

    fit: Literal["short", "both", "ratio"]
    longest: float = 0.0
    fill: int = 0

    def resized(self, width: int, height: int) -> Size:
        """Return the (height, width) that a picture is resized to."""
        if self.fit == "both":
            return self.size
        if self.fit == "short":
            from wdsflow.stages.imaging.geometry import output_size

            return output_size(width, height, self.size[0])
        # As timm computes it, rounding included.
        down = height / self.size[0]
        across = width / self.size[1]
        ratio = max(down, across) * self.longest + min(down, across) * (1.0 - self.longest)
        return round(height * 1.0 / ratio), round(width * 1.0 / ratio)


@dataclass(frozen=True, kw_only=True)
class RandomCrop(Transform):
    """torchvision's RandomResizedCrop: a random part of an image, resized to ``size``.

    The area and the shape of the part are bounded.
    """

    scale: tuple[float, float]
    ratio: tuple[float, float]


def recognise(preprocess: Step) -> ResizeAndCrop | RandomCrop | None:
    """Return the transform; None if it is not OpenCLIP's, or has steps such as colour jitter."""
    if _name(preprocess) != (_TORCHVISION, "Compose"):
        return None
    steps = list(preprocess.transforms)
    normal = _normalise(steps)
    if normal is None or not all(map(_is_upstream, steps)):
        return None
    names = [_name(step)[1] for step in steps]
    if names not in _RECOGNISED:
        return None
    first = steps[0]
    size = _pair(first.size)
    kernel = _kernel(first)
    if size is None or kernel is None:
        return None
    mean, std = normal
    base = Transform(size=size, kernel=kernel, mean=mean, std=std)
    if names == ["RandomResizedCrop"]:
        return _random_crop(base, first)
    return _resize_and_crop(base, steps)


def _random_crop(base: Transform, step: Step) -> RandomCrop | None:
    """Return the transform of a RandomResizedCrop."""
    scale = tuple(map(float, step.scale))
    ratio = tuple(map(float, step.ratio))
    if len(scale) != 2 or len(ratio) != 2:
        return None
    return RandomCrop(**vars(base), scale=scale, ratio=ratio)


def _resize_and_crop(base: Transform, steps: list[Step]) -> ResizeAndCrop | None:
    """Return the transform of a step that resizes, and perhaps one that crops."""
    first, last = steps[0], steps[-1]
    fit: Literal["short", "both", "ratio"] = "short"
    longest = 0.0
    fill = 0
    if _name(first)[1] == "ResizeKeepRatio":
        fit = "ratio"
        longest = float(first.longest)
        fill = getattr(last, "fill", 0)
        if first.random_scale_prob or first.random_aspect_prob or not isinstance(fill, int):
            return None
    elif first.max_size is not None:
        return None
    elif not isinstance(first.size, int) and len(first.size) == 2:
        fit = "both"
    # Only a resize of both sides needs no crop, and it has none.
    if (fit == "both") != (len(steps) == 1):
        return None
    if last is not first and _pair(last.size) != base.size:
        return None
    return ResizeAndCrop(**vars(base), fit=fit, longest=longest, fill=fill)


def _name(step: Step) -> tuple[str, str]:
    """Return the module and the name of a step: a function, or an object of a class."""
    kind = step if callable(step) and hasattr(step, "__qualname__") else type(step)
    return str(kind.__module__), str(kind.__qualname__)


def _is_upstream(step: Step) -> bool:
    """Return whether a step is from the module from which OpenCLIP takes it.

    Another step may have the same name.
    """
    module, name = _name(step)
    return module == (_OPENCLIP if name in _OF_OPENCLIP else _TORCHVISION)


def _kernel(step: Step) -> Kernel | None:
    """Return the kernel with which a step resizes; None if it is another one."""
    interpolation = getattr(step.interpolation, "value", None)
    for kernel in _KERNELS:
        if kernel == interpolation:
            return kernel
    return None


def _normalise(steps: list[Step]) -> tuple[Triple, Triple] | None:
    """Remove the steps from conversion to normalisation; return mean and standard deviation."""
    if len(steps) < 3 or _name(steps[-1]) != (_TORCHVISION, "Normalize"):
        return None
    last = steps.pop()
    if _name(steps.pop()) not in {(_OPENCLIP, "MaybeToTensor"), (_TORCHVISION, "ToTensor")}:
        return None
    converts = {(_OPENCLIP, "MaybeConvertMode"), (_OPENCLIP, "_convert_to_rgb")}
    if _name(steps[-1]) in converts and getattr(steps.pop(), "mode", "RGB") != "RGB":
        return None
    mean, std = _triple(last.mean), _triple(last.std)
    return (mean, std) if mean and std and all(std) else None


def _triple(values: Iterable[float]) -> Triple | None:
    try:
        first, second, third = (float(value) for value in values)
    except (TypeError, ValueError):
        return None
    return first, second, third


def _pair(size: int | Iterable[Any]) -> Size | None:
    if isinstance(size, int):
        return size, size
    sides = tuple(size)
    if len(sides) not in {1, 2} or not all(isinstance(side, int) and side > 0 for side in sides):
        return None
    return sides[0], sides[-1]
