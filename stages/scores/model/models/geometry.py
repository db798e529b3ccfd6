"""What a model's evaluation transform does to the shape of a picture."""

from dataclasses import dataclass
from typing import Literal

Kernel = Literal["bicubic", "bilinear"]
Size = tuple[int, int]  # height, width


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """Resize the whole picture, then cut its centre out, or pad it with ``fill``, to ``size``.

    ``fit`` "short": the short side becomes that of ``size``, a square; "both": both sides do, whatever becomes of the
    shape; "cover": the smallest that covers ``size``; "within": the largest that fits into it.
    """

    size: Size
    fit: Literal["short", "both", "cover", "within"]
    kernel: Kernel = "bicubic"
    fill: int = 0

    def resized(self, width: int, height: int) -> Size:
        """Return the (height, width) that a picture is resized to; a side of a very long one may become 0.

        Source: torchvision's Resize; ResizeKeepRatio of OpenCLIP and timm.

        >>> Geometry(size=(224, 224), fit="short").resized(640, 481)
        (224, 298)
        >>> Geometry(size=(224, 224), fit="within").resized(640, 481)
        (168, 224)
        """
        if self.fit == "both":
            return self.size
        if self.fit == "short":
            from ....imaging.resample import output_size

            return output_size(width, height, self.size[0])
        sides = height / self.size[0], width / self.size[1]
        ratio = min(sides) if self.fit == "cover" else max(sides)
        return round(height / ratio), round(width / ratio)
