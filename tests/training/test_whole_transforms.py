"""What is recognised of image transforms, and what batches are made of values, in all shapes."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("open_clip", reason="OpenCLIP is not installed")

import torch
from open_clip.transform import (
    CenterCropOrPad,
    MaybeConvertMode,
    MaybeToTensor,
    ResizeKeepRatio,
    _convert_to_rgb,
)
from torchvision import transforms as tv
from torchvision.transforms import InterpolationMode

from tests.golden_file import check_text
from wdsflow.training.feed.epoch.assembler import stack
from wdsflow.training.pixels.transforms import recognise

GOLDEN = Path(__file__).parent / "golden" / "transforms.txt"
MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.25, 0.3)
CUBIC, LINEAR, NEAREST = (
    InterpolationMode.BICUBIC,
    InterpolationMode.BILINEAR,
    InterpolationMode.NEAREST,
)
END = (MaybeConvertMode(), MaybeToTensor(), tv.Normalize(MEAN, STD))
TRANSFORMS = {
    "random crop": (tv.RandomResizedCrop(32, interpolation=CUBIC), *END),
    "random crop of two sides": (
        tv.RandomResizedCrop((32, 48), (0.9, 1.0), (0.75, 1.5), LINEAR),
        *END,
    ),
    "random crop, nearest": (tv.RandomResizedCrop(32, interpolation=NEAREST), *END),
    "random crop after a flip": (tv.RandomHorizontalFlip(), tv.RandomResizedCrop(32), *END),
    "resize, crop": (tv.Resize(32, CUBIC), tv.CenterCrop(32), *END),
    "resize, crop of two sides": (tv.Resize(32, LINEAR), tv.CenterCrop((32, 32)), *END),
    "resize, smaller crop": (tv.Resize(32, CUBIC), tv.CenterCrop(28), *END),
    "resize, longer crop": (tv.Resize(32, CUBIC), tv.CenterCrop((32, 48)), *END),
    "resize to one side": (tv.Resize(32, CUBIC), *END),
    "resize to a list of one side": (tv.Resize([32], CUBIC), tv.CenterCrop([32]), *END),
    "resize to both sides": (tv.Resize((32, 48), CUBIC), *END),
    "resize to both sides, crop": (tv.Resize((32, 32), CUBIC), tv.CenterCrop(32), *END),
    "resize, longest side": (tv.Resize(32, CUBIC, max_size=40), tv.CenterCrop(32), *END),
    "resize, nearest": (tv.Resize(32, NEAREST), tv.CenterCrop(32), *END),
    "keep ratio, pad": (
        ResizeKeepRatio((32, 48), longest=1),
        CenterCropOrPad((32, 48), fill=7),
        *END,
    ),
    "keep ratio, crop": (
        ResizeKeepRatio(32, longest=0, interpolation=LINEAR),
        tv.CenterCrop(32),
        *END,
    ),
    "keep ratio, another crop": (ResizeKeepRatio(32), tv.CenterCrop(28), *END),
    "keep ratio, at random": (ResizeKeepRatio(32, random_scale_prob=0.5), tv.CenterCrop(32), *END),
    "keep ratio, aspect at random": (
        ResizeKeepRatio(32, random_aspect_prob=0.5),
        tv.CenterCrop(32),
        *END,
    ),
    "keep ratio, nearest": (ResizeKeepRatio(32, interpolation=NEAREST), tv.CenterCrop(32), *END),
    "keep ratio, fill of three": (ResizeKeepRatio(32), CenterCropOrPad(32, fill=(1, 2, 3)), *END),
    "older conversion": (
        tv.Resize(32, CUBIC),
        tv.CenterCrop(32),
        _convert_to_rgb,
        tv.ToTensor(),
        END[2],
    ),
    "no conversion": (tv.Resize(32, CUBIC), tv.CenterCrop(32), tv.ToTensor(), END[2]),
    "grey": (tv.Resize(32, CUBIC), tv.CenterCrop(32), MaybeConvertMode("L"), *END[1:]),
    "not normalised": (tv.Resize(32, CUBIC), tv.CenterCrop(32), *END[:2]),
    "normalised twice": (tv.Resize(32, CUBIC), tv.CenterCrop(32), *END, END[2]),
    "one channel": (
        tv.Resize(32, CUBIC),
        tv.CenterCrop(32),
        *END[:2],
        tv.Normalize((0.5,), (0.5,)),
    ),
    "one number": (tv.Resize(32, CUBIC), tv.CenterCrop(32), *END[:2], tv.Normalize(0.5, 0.5)),
    "a deviation of nothing": (
        tv.Resize(32, CUBIC),
        tv.CenterCrop(32),
        *END[:2],
        tv.Normalize(MEAN, (0.1, 0, 0.1)),
    ),
    "steps alone": (tv.ToTensor(), END[2]),
    "nothing": (),
}
VALUES = {
    "tensors": [torch.ones(2), torch.zeros(2)],
    "tensors of other shapes": [torch.ones(2), torch.zeros(3)],
    "arrays": [np.ones(2, np.int16), np.zeros(2, np.int16)],
    "arrays of other shapes": [np.ones(2), np.zeros(3)],
    "arrays of other types": [np.ones(2, np.int16), np.zeros(2, np.int32)],
    "arrays of words": [np.array(["a"]), np.array(["b"])],
    "numbers": [1, 2],
    "fractions": [1.5, 2.0],
    "flags": [True, False],
    "words": ["a", "b"],
    "an array and a number": [np.ones(2), 1],
    "a number and an array": [1, np.ones(2)],
    "a number and a word": [1, "a"],
    "one": [np.ones((1, 2), np.float32)],
}


def test_these_transforms_are_recognised():
    lines = [f"{name}: {recognise(tv.Compose(steps))}" for name, steps in TRANSFORMS.items()]
    lines += [f"{each!r}: {recognise(each)}" for each in (None, str, tv.ToTensor())]
    whole = [
        recognise(tv.Compose(TRANSFORMS[name]))
        for name in ("resize, crop", "resize to both sides", "keep ratio, pad")
    ]
    for size in ((100, 50), (50, 100), (32, 48), (1, 999)):
        lines.append(
            f"{size} becomes {[each.resized(*size) for each in whole if each is not None]}"
        )  # type: ignore[union-attr]
    check_text(GOLDEN, "recognised", "\n".join(lines))


def test_values_make_these_batches():
    lines = []
    for name, values in VALUES.items():
        made = stack(values)
        lines.append(f"{name}: {made!r} {getattr(made, 'dtype', '')}".replace("\n", ""))
    check_text(GOLDEN, "batches", "\n".join(lines))
