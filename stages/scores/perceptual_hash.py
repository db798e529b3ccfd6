"""The perceptual hash of an image."""

from functools import cache
from typing import TYPE_CHECKING

from .base import Tolerance
from .picture import Picture
from .simple_score import simple_score

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Pixels, frequencies.
_HASHED_SIDE = 32
_LOWEST = 8
_FIXED_POINT = 1 << 20


@simple_score(scale_tolerance=Tolerance(2, "bits"))
def phash(picture: Picture) -> str:
    """Perceptual hash: 16 hexadecimal digits that differ in few bits if images look alike.

    The luma at 32 x 32 pixels (Lanczos), its discrete cosine transform, the 8 x 8 lowest
    frequencies, a bit for each that is above their median. Equal to ``imagehash.phash`` of the luma
    of at most 512 pixels per side; for larger images it may differ from that of the full size by a
    few bits. See near_duplicate. Source: ImageHash; Krawetz, Looks like it, 2011.
    """
    return phash_bytes(picture).hex()


def phash_bytes(picture: Picture) -> bytes:
    """Return the perceptual hash of a picture, 8 bytes."""
    import numpy as np
    from PIL import Image

    resized = picture.luma.resize((_HASHED_SIDE, _HASHED_SIDE), Image.Resampling.LANCZOS)
    levels = np.asarray(resized, np.int64)
    cosines = _cosines()
    # Integers: in floating point, the bits of a flat image would be rounding errors, which depend
    # on the machine.
    frequencies = (cosines @ levels @ cosines.T).ravel()
    # The median of 64 values is the mean of these two.
    twice_median = np.sort(frequencies)[31:33].sum()
    return np.packbits(2 * frequencies > twice_median).tobytes()


@cache
def _cosines() -> "NDArray[np.int64]":
    """Return the 8 lowest cosines at 32 positions, times 2**20, as an array (8, 32)."""
    import numpy as np

    steps = np.outer(np.arange(_LOWEST), 2 * np.arange(_HASHED_SIDE) + 1)
    cosines = np.cos(np.pi * steps / (2 * _HASHED_SIDE))
    rounded: NDArray[np.int64] = np.rint(cosines * _FIXED_POINT).astype(np.int64)
    return rounded
