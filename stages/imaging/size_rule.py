"""The rule for the size of images: which are too large, and how large they become."""

import re
from decimal import Decimal
from math import isqrt
from typing import Literal, NamedTuple, get_args

SizeKind = Literal["long", "short", "pixels", "square", "center-crop"]

_RULE = re.compile(r"(?:([a-z-]+):)?([0-9]{1,9}(?:\.[0-9]{1,6})?)(MP)?")
_EXAMPLES = ("512", "long:512", "short:224", "pixels:1MP", "square:512", "center-crop:224")
# img2dataset's.
_OTHER_NAMES = {
    "keep_ratio": "short",
    "keep_ratio_largest": "long",
    "border": "square",
    "center_crop": "center-crop",
}


class SizeRule(NamedTuple):
    """The largest size of an image; smaller ones stay as they are.

    ``long``: the long side is at most ``most`` pixels. ``short``: the short side. ``pixels``: width
    times height. ``square``: as ``long``, and filled up with white to ``most`` x ``most``.
    ``center-crop``: as ``short``, and the long side is cut to ``most``, the same on both ends.
    img2dataset calls these keep_ratio_largest, keep_ratio, border and center_crop, each with
    ``resize_only_if_bigger``; it has nothing like ``pixels``.
    """

    kind: SizeKind
    most: int

    @classmethod
    def parse(cls, text: str) -> "SizeRule":
        """Parse a rule such as ``512``, ``short:224`` or ``pixels:1MP``.

        ``512`` is the long side. ``square:512`` and ``center-crop:256`` are the other kinds.

        Raises ValueError.

        >>> SizeRule.parse("512"), SizeRule.parse("pixels:0.5MP")
        (SizeRule(kind='long', most=512), SizeRule(kind='pixels', most=500000))
        """
        match = _RULE.fullmatch(text.strip())
        kind = (match[1] or "long") if match else ""
        if match is None or kind not in get_args(SizeKind) or (match[3] and kind != "pixels"):
            name, _, number = text.partition(":")
            examples = ", ".join(_EXAMPLES)
            if name in _OTHER_NAMES:
                examples = f"{_OTHER_NAMES[name]}:{number}"
            raise ValueError(f"{text!r} is not a size of images: use {examples}")
        most = Decimal(match[2])
        if match[3]:
            most *= 1_000_000
        if most < 1 or most != int(most):
            raise ValueError(
                f"{text!r} is not a size of images: give a whole number of pixels, at least 1"
            )
        return cls(kind, int(most))  # type: ignore[arg-type]

    def is_small_enough(self, width: int, height: int) -> bool:
        """Return whether an image is small enough."""
        if self.kind == "pixels":
            return width * height <= self.most
        side = min(width, height) if self.kind == "short" else max(width, height)
        return side <= self.most

    def scaled(self, width: int, height: int) -> tuple[int, int]:
        """Return width and height, at least 1 and never enlarged.

        They apply before ``square`` fills up and ``center-crop`` cuts.

        >>> [SizeRule.parse(rule).scaled(4000, 3000) for rule in ("512", "short:224", "pixels:1MP", "center-crop:256")]
        [(512, 384), (299, 224), (1154, 866), (341, 256)]
        """
        if self.kind == "pixels":
            if width * height <= self.most:
                return width, height
            # Integers: the same on every machine.
            across = max(1, isqrt(self.most * width // height))
            down = min(self.most // across, isqrt(self.most * height // width))
            return across, max(1, down)
        side = min(width, height) if self.kind in {"short", "center-crop"} else max(width, height)
        if side <= self.most:
            return width, height
        # Rounded to the nearest.
        across = (width * self.most + side // 2) // side
        down = (height * self.most + side // 2) // side
        return max(1, across), max(1, down)

    def final(self, width: int, height: int) -> tuple[int, int]:
        """Return width and height of the result for an image that is not small enough."""
        if self.kind == "square":
            return self.most, self.most
        across, down = self.scaled(width, height)
        if self.kind == "center-crop":
            return min(across, self.most), min(down, self.most)
        return across, down
