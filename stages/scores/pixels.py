"""Scores from the pixels of an image."""

from itertools import accumulate
from math import fsum, log2, sqrt
from typing import TYPE_CHECKING

from .base import Tolerance
from .picture import Picture
from .simple_score import simple_score

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Every 16th row is checked first, which is enough for most pictures.
_ROWS = 16


@simple_score(low=0, scale_tolerance=Tolerance(0.35, "of the value"))
def blur(picture: Picture) -> float:
    """Variance of the Laplacian of the luma (levels 0 to 255): low is blurred or empty, high is sharp or noisy.

    Kernel [[0, 1, 0], [1, -4, 1], [0, 1, 0]], borders mirrored, as OpenCV's
    ``Laplacian(grey, CV_64F).var()``, on the luma of at most 512 pixels per side: thresholds for
    full-size images do not apply. From 0 on. Images that are more than twice as large are decoded
    at a reduced scale, which leaves more detail: on photographs the value is 20 % higher on
    average, and at most 32 %, than without. Source: Pech-Pacheco et al., Diatom autofocusing in
    brightfield microscopy, ICPR 2000.
    """
    import numpy as np

    luma = np.pad(np.asarray(picture.luma, np.int16), 1, mode="reflect")
    above, below = luma[:-2, 1:-1], luma[2:, 1:-1]
    left, right = luma[1:-1, :-2], luma[1:-1, 2:]
    edges = above + below + left + right - 4 * luma[1:-1, 1:-1]
    count = edges.size
    total = int(edges.sum(dtype=np.int64))
    squares = int(np.square(edges, dtype=np.int32).sum(dtype=np.int64))
    # Integers, divided once: the same value on every machine.
    return float((count * squares - total * total) / (count * count))


@simple_score(low=0, high=1, scale_tolerance=Tolerance(0.002))
def brightness(picture: Picture) -> float:
    """Mean of the luma, as a share of white: 0 is black, 1 is white.

    0 to 1, on the luma of at most 512 pixels per side. Source: ITU-R BT.601 (luma).
    """
    counts = picture.histogram
    return sum(level * count for level, count in enumerate(counts)) / (255 * sum(counts))


@simple_score(low=0, high=0.5, scale_tolerance=Tolerance(0.005))
def contrast(picture: Picture) -> float:
    """Standard deviation of the luma, as a share of white (RMS contrast): 0 is one tone, 0.5 is half black, half white.

    0 to 0.5, on the luma of at most 512 pixels per side. Source: Peli, Contrast in complex images,
    JOSA A 1990.
    """
    counts = picture.histogram
    size = sum(counts)
    total = sum(level * count for level, count in enumerate(counts))
    squares = sum(level * level * count for level, count in enumerate(counts))
    return sqrt(size * squares - total * total) / (255 * size)


@simple_score(unit="bits", low=0, high=8, scale_tolerance=Tolerance(0.05))
def entropy(picture: Picture) -> float:
    """Shannon entropy of the luma's histogram of 256 levels, in bits: 0 is one tone; photographs have 6 to 8.

    0 to 8, on the luma of at most 512 pixels per side, rounded to 12 decimal places. Source:
    Pillow's ``Image.entropy`` of the grey image.
    """
    counts = [count for count in picture.histogram if count]
    size = sum(counts)
    bits = fsum(count / size * log2(size / count) for count in counts)
    # Rounded, because logarithms differ in their last bit between machines. abs() makes -0.0 zero.
    return abs(round(bits, 12))


@simple_score(ranges={"tolerance": (0, 255), "share": (1e-9, 1)})
def is_blank(picture: Picture, *, tolerance: int = 8, share: float = 0.999) -> bool:
    """Whether the image has one colour: nearly all pixels are close to the median, in each of red, green and blue.

    At least ``share`` of the values of each channel are within ``tolerance`` levels of its median.
    Source: our own.
    """
    import numpy as np

    width, height = picture.size
    size = width * height
    rows = picture.rows(_ROWS)
    # Not blank if these rows alone have more pixels far
    # from any median than a blank image may have.
    for channel in range(3):
        counts = np.bincount(rows[..., channel].ravel(), minlength=256)
        if size - _least_off(counts, tolerance) < share * width * height:
            return False
    levels = picture.image.histogram()
    red, green, blue = levels[:256], levels[256:512], levels[512:768]
    return all(_is_even(counts, tolerance, share) for counts in (red, green, blue))


def _least_off(counts: "NDArray[np.intp]", tolerance: int) -> int:
    """Return the least number of values outside of a range of ``tolerance`` around a median, whichever it is."""
    import numpy as np

    below = np.concatenate(([0], np.cumsum(counts)))
    width = min(2 * tolerance + 1, 256)
    within = below[width:] - below[:-width]
    return int(below[-1] - within.max())


def _is_even(counts: list[int], tolerance: int, share: float) -> bool:
    """Return whether at least ``share`` of a channel's values are within ``tolerance`` of their median."""
    size = sum(counts)
    median = next(level for level, below in enumerate(accumulate(counts)) if 2 * below >= size)
    within = sum(counts[max(0, median - tolerance) : median + tolerance + 1])
    return within >= share * size


@simple_score(ranges={"tolerance": (0, 255), "share": (1e-9, 1)})
def greyscale(picture: Picture, *, tolerance: int = 8, share: float = 0.999) -> bool:
    """Whether the image has no colours, whatever the mode of its file: red, green and blue are nearly the same.

    They differ by at most ``tolerance`` levels in at least ``share`` of the pixels. Source:
    cleanvision's grayscale, which goes by the mode, and finds no grey image that is stored in
    colours.
    """
    import numpy as np

    pixels = picture.pixels
    spread = np.maximum.reduce(pixels, axis=2) - np.minimum.reduce(pixels, axis=2)
    return bool((spread <= tolerance).mean() >= share)
