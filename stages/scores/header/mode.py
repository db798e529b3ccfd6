"""How an image stores its colours."""

from dataclasses import dataclass
from typing import ClassVar

from wdsflow.images.header import ImageHeader

from ..base import HeaderScore, Kind, ScoreError


@dataclass(frozen=True, kw_only=True)
class Mode(HeaderScore):
    """Colour mode of the image, by Pillow's name: "RGB", "L" (grey), "RGBA", "P" (palette), "CMYK", "1", "I;16", ...

    Source: the header; equal to the mode of ``PIL.Image.open`` for JPEG, PNG, GIF, WebP and BMP.
    """

    name: ClassVar[str] = "mode"
    kind: ClassVar[Kind] = "text"

    def of(self, header: ImageHeader) -> str:
        """Return the mode."""
        if not header.mode:
            raise ScoreError("unknown-mode", f"the header of this {header.format} has no mode, or cannot be decoded")
        return header.mode
