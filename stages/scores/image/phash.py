"""A perceptual hash of an image, in 64 bits."""

from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

from ..base import Kind, PixelScore, Tolerance
from .picture import Picture

_SIDE, _LOW = 32, 8
_ONE = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Phash(PixelScore):
    """Perceptual hash: 16 hexadecimal digits that differ in few bits if images look alike.

    The luma at 32 x 32 pixels (Lanczos), its discrete cosine transform, the 8 x 8 lowest frequencies, a bit for each
    that is above their median. Equal to ``imagehash.phash`` of the luma of at most 512 pixels per side; for larger
    images it may differ from that of the full size by a few bits. See near_duplicate. Source: ImageHash; Krawetz, Looks
    like it, 2011.
    """

    name: ClassVar[str] = "phash"
    kind: ClassVar[Kind] = "text"
    scale_tolerance: ClassVar[Tolerance | None] = Tolerance(2, "bits")

    def of(self, picture: Picture) -> str:
        """Return the hash."""
        return phash(picture).hex()


def phash(picture: Picture) -> bytes:
    """Return the hash of a picture, 8 bytes."""
    import numpy as np
    from PIL import Image

    small = np.asarray(picture.luma.resize((_SIDE, _SIDE), Image.Resampling.LANCZOS), np.int64)
    waves = _waves()
    # Whole numbers: in floating point the bits of a flat image would be rounding noise, other on each machine.
    frequencies = (waves @ small @ waves.T).ravel()
    middle = np.sort(frequencies)[31:33].sum()
    return np.packbits(2 * frequencies > middle).tobytes()


@cache
def _waves() -> Any:
    """Return the 8 lowest cosines at 32 places, times 2**20."""
    import numpy as np

    steps = np.outer(np.arange(_LOW), 2 * np.arange(_SIDE) + 1)
    return np.rint(np.cos(np.pi * steps / (2 * _SIDE)) * _ONE).astype(np.int64)
