"""What a preprocessing does, told by its structure: OpenCLIP's transforms, without importing OpenCLIP or torchvision."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

Kernel = Literal["bicubic", "bilinear"]
Size = tuple[int, int]  # height, width

_TORCHVISION = "torchvision.transforms.transforms"
_OPENCLIP = "open_clip.transform"
_KERNELS: tuple[Kernel, ...] = ("bicubic", "bilinear")


@dataclass(frozen=True, kw_only=True)
class Transform:
    """What all known transforms end in: RGB, as floats, normalised."""

    size: Size
    kernel: Kernel
    mean: tuple[float, float, float]
    std: tuple[float, float, float]


@dataclass(frozen=True, kw_only=True)
class Whole(Transform):
    """Resize the whole picture, then cut its centre out, or pad it with ``fill``, to ``size``.

    ``fit`` "short": the short side becomes ``size[0]``; "both": both sides do, whatever becomes of the shape;
    "ratio": as timm's ResizeKeepRatio with ``longest``, 1 to fit all of it in, 0 to fill the size.
    """

    fit: Literal["short", "both", "ratio"]
    longest: float = 0.0
    fill: int = 0

    def resized(self, width: int, height: int) -> Size:
        """Return the (height, width) that a picture is resized to."""
        if self.fit == "both":
            return self.size
        if self.fit == "short":
            from wdsflow.stages.imaging.resample import output_size

            return output_size(width, height, self.size[0])
        down, across = height / self.size[0], width / self.size[1]
        ratio = max(down, across) * self.longest + min(down, across) * (1.0 - self.longest)
        return round(height * 1.0 / ratio), round(width * 1.0 / ratio)


@dataclass(frozen=True, kw_only=True)
class RandomCrop(Transform):
    """torchvision's RandomResizedCrop: a random part, of an area and a shape within bounds, resized to ``size``."""

    scale: tuple[float, float]
    ratio: tuple[float, float]


def recognise(preprocess: Any) -> Whole | RandomCrop | None:
    """Return what a preprocessing does, None if it is none of OpenCLIP's, or one with colour jitter and the like."""
    if _name(preprocess) != (_TORCHVISION, "Compose"):
        return None
    steps = list(preprocess.transforms)
    normalise = _normalise(steps)
    if normalise is None:
        return None
    names = [_name(step)[1] for step in steps]
    if names == ["RandomResizedCrop"] and _known(steps[:1]):
        return _random_crop(steps[0], *normalise)
    if names in (["Resize"], ["Resize", "CenterCrop"]) and _known(steps):
        return _resize(steps, *normalise)
    if names in (["ResizeKeepRatio", "CenterCrop"], ["ResizeKeepRatio", "CenterCropOrPad"]) and _known(steps):
        return _keep_ratio(steps, *normalise)
    return None


Triple = tuple[float, float, float]


def _name(step: Any) -> tuple[str, str]:
    kind = step if callable(step) and hasattr(step, "__qualname__") else type(step)
    return str(kind.__module__), str(kind.__qualname__)


def _known(steps: Sequence[Any]) -> bool:
    theirs = {"ResizeKeepRatio", "CenterCropOrPad"}
    return all(module == (_OPENCLIP if name in theirs else _TORCHVISION) for module, name in map(_name, steps))


def _normalise(steps: list[Any]) -> tuple[Triple, Triple] | None:
    """Take the steps from conversion to normalising off the end; return mean and deviation."""
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


def _triple(values: Any) -> Triple | None:
    try:
        first, second, third = (float(value) for value in values)
    except (TypeError, ValueError):
        return None
    return first, second, third


def _kernel(step: Any) -> Kernel | None:
    value = getattr(step.interpolation, "value", None)
    return next((kernel for kernel in _KERNELS if kernel == value), None)


def _pair(size: Any) -> Size | None:
    if isinstance(size, int):
        return size, size
    sides = tuple(size)
    if len(sides) not in {1, 2} or not all(isinstance(side, int) and side > 0 for side in sides):
        return None
    return sides[0], sides[-1]


def _random_crop(step: Any, mean: Triple, std: Triple) -> RandomCrop | None:
    size, kernel = _pair(step.size), _kernel(step)
    scale, ratio = tuple(map(float, step.scale)), tuple(map(float, step.ratio))
    if size is None or kernel is None or len(scale) != 2 or len(ratio) != 2:
        return None
    return RandomCrop(size=size, kernel=kernel, mean=mean, std=std, scale=scale, ratio=ratio)


def _resize(steps: list[Any], mean: Triple, std: Triple) -> Whole | None:
    resize = steps[0]
    size, kernel = _pair(resize.size), _kernel(resize)
    if size is None or kernel is None or resize.max_size is not None:
        return None
    both = not isinstance(resize.size, int) and len(resize.size) == 2
    if len(steps) == 1:
        return Whole(size=size, kernel=kernel, mean=mean, std=std, fit="both") if both else None
    if both or _pair(steps[1].size) != size:
        return None
    return Whole(size=size, kernel=kernel, mean=mean, std=std, fit="short")


def _keep_ratio(steps: list[Any], mean: Triple, std: Triple) -> Whole | None:
    resize, cut = steps
    size, kernel = _pair(resize.size), _kernel(resize)
    fill = getattr(cut, "fill", 0)
    if size is None or kernel is None or _pair(cut.size) != size or not isinstance(fill, int):
        return None
    if resize.random_scale_prob or resize.random_aspect_prob:
        return None
    longest = float(resize.longest)
    return Whole(size=size, kernel=kernel, mean=mean, std=std, fit="ratio", longest=longest, fill=fill)
