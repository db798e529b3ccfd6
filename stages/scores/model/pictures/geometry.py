"""The size to which a picture is resized, cropped and padded for a model."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from ....imaging.torch_kernel import Kernel

# Height, width.
Size = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """Resize the whole picture, then crop its centre, or pad it with ``fill``, to ``size``.

    ``fit`` "short": the short side becomes that of ``size``, a square; "both": both sides do,
    without regard to the aspect ratio; "cover": the smallest that covers ``size``; "within": the
    largest that fits into it. ``rounds_down``: half of an odd margin is rounded down for the crop,
    as by the processors of transformers; torchvision rounds it to even.
    """

    size: Size
    fit: Literal["short", "both", "cover", "within"]
    kernel: "Kernel" = "bicubic"
    fill: int = 0
    rounds_down: bool = False

    def resized(self, width: int, height: int) -> Size:
        """Return the (height, width) that a picture is resized to.

        One side of a very long picture may become 0.

        Source: torchvision's Resize; ResizeKeepRatio of OpenCLIP and timm.

        >>> Geometry(size=(224, 224), fit="short").resized(640, 481)
        (224, 298)
        >>> Geometry(size=(224, 224), fit="within").resized(640, 481)
        (168, 224)
        """
        if self.fit == "both":
            return self.size
        if self.fit == "short":
            from ....imaging.geometry import output_size

            return output_size(width, height, self.size[0])
        vertical, horizontal = height / self.size[0], width / self.size[1]
        choose = min if self.fit == "cover" else max
        ratio = choose(vertical, horizontal)
        return round(height / ratio), round(width / ratio)
