"""The aspect ratio of an image."""

from dataclasses import dataclass
from typing import ClassVar

from wdsflow.images.header import ImageHeader

from ..base import HeaderScore
from .sized import sized


@dataclass(frozen=True, kw_only=True)
class AspectRatio(HeaderScore):
    """Width divided by height, as stored: 1.5 is a landscape photograph, below 1 is upright.

    Above 0, no unit. Source: the header; Data-Juicer's aspect_ratios.
    """

    name: ClassVar[str] = "aspect_ratio"
    low: ClassVar[float | None] = 0

    def of(self, header: ImageHeader) -> float:
        """Return the ratio."""
        sized(header)
        return header.width / header.height
