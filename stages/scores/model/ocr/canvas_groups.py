"""Groups of canvases that share a forward pass of the detector.

They have equal sizes once their sides are padded.
"""

from collections.abc import Sequence
from typing import NamedTuple

from .text_boxes import Canvas

# EasyOCR's ``resize_aspect_ratio`` pads the sides to multiples of this.
_MULTIPLE = 32


class PaddedSize(NamedTuple):
    """Pixels of a canvas once its sides are padded."""

    height: int
    width: int


class CanvasGroup(NamedTuple):
    """Canvases of one padded size, by their positions in a batch."""

    size: PaddedSize
    positions: list[int]


def padded_size(canvas: Canvas) -> PaddedSize:
    """Return the size that EasyOCR pads a canvas to."""
    height, width = canvas.pixels.shape[:2]
    return PaddedSize(padded(height), padded(width))


def padded(length: int) -> int:
    """Return the padded length of a side: the next multiple of 32.

    >>> padded(360), padded(384)
    (384, 384)
    """
    return -(-length // _MULTIPLE) * _MULTIPLE


def groups_of(batch: Sequence[Canvas]) -> list[CanvasGroup]:
    """Return the canvases of a batch by padded size.

    A wider margin would change results near an edge, so canvases of other sizes do not share a
    pass.
    """
    groups: dict[PaddedSize, CanvasGroup] = {}
    for position, canvas in enumerate(batch):
        size = padded_size(canvas)
        group = groups.setdefault(size, CanvasGroup(size, []))
        group.positions.append(position)
    return list(groups.values())


def one_by_one(batch: Sequence[Canvas]) -> list[CanvasGroup]:
    """Return each canvas of a batch as a group of its own."""
    return [CanvasGroup(padded_size(canvas), [number]) for number, canvas in enumerate(batch)]
