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

# Of a channel.
_LEVELS = 256
_WHITE = 255
# Every 16th row is checked first, which is enough for most pictures.
_ROWS = 16


@simple_score(low=0, scale_tolerance=Tolerance(0.35, "of the value"))
def blur(picture: Picture) -> float:
    """Variance of the Laplacian of the luma (levels 0 to 255).

    Low values are blurred or empty images, high values are sharp or noisy ones.

    Kernel [[0, 1, 0], [1, -4, 1], [0, 1, 0]], borders mirrored, as OpenCV's
    ``Laplacian(grey, CV_64F).var()``, on the luma of at most 512 pixels per side: thresholds for
    full-size images do not apply. From 0 on. Images that are more than twice as large are decoded
    at a reduced scale, which leaves more detail: on photographs the value is 20 % higher on
    average, and at most 32 %, than without. Source: Pech-Pacheco et al., Diatom autofocusing in
    brightfield microscopy, ICPR 2000.
    """
    import numpy as np

    luma = np.asarray(picture.luma, np.int16)
    padded = np.pad(luma, 1, mode="reflect")
    above = padded[:-2, 1:-1]
    below = padded[2:, 1:-1]
    left = padded[1:-1, :-2]
    right = padded[1:-1, 2:]
    laplacian = above + below + left + right - 4 * padded[1:-1, 1:-1]
    # Integers, divided once: the same value on every machine.
    count = laplacian.size
    total = int(laplacian.sum(dtype=np.int64))
    squares = np.square(laplacian, dtype=np.int32)
    sum_of_squares = int(squares.sum(dtype=np.int64))
    variance = (count * sum_of_squares - total * total) / (count * count)
    return float(variance)


@simple_score(low=0, high=1, scale_tolerance=Tolerance(0.002))
def brightness(picture: Picture) -> float:
    """Mean of the luma, as a share of white: 0 is black, 1 is white.

    0 to 1, on the luma of at most 512 pixels per side. Source: ITU-R BT.601 (luma).
    """
    counts = picture.histogram
    total = sum(level * count for level, count in enumerate(counts))
    return total / (_WHITE * sum(counts))


@simple_score(low=0, high=0.5, scale_tolerance=Tolerance(0.005))
def contrast(picture: Picture) -> float:
    """Standard deviation of the luma, as a share of white (RMS contrast).

    0 is one tone; 0.5 is half black, half white.

    0 to 0.5, on the luma of at most 512 pixels per side. Source: Peli, Contrast in complex images,
    JOSA A 1990.
    """
    counts = picture.histogram
    size = sum(counts)
    total = 0
    sum_of_squares = 0
    for level, count in enumerate(counts):
        total += level * count
        sum_of_squares += level * level * count
    return sqrt(size * sum_of_squares - total * total) / (_WHITE * size)


@simple_score(unit="bits", low=0, high=8, scale_tolerance=Tolerance(0.05))
def entropy(picture: Picture) -> float:
    """Shannon entropy of the luma's histogram of 256 levels, in bits.

    0 is one tone; photographs have 6 to 8.

    0 to 8, on the luma of at most 512 pixels per side, rounded to 12 decimal places. Source:
    Pillow's ``Image.entropy`` of the grey image.
    """
    counts = [count for count in picture.histogram if count]
    size = sum(counts)
    bits = fsum(count / size * log2(size / count) for count in counts)
    # Logarithms differ in their last bit between machines.
    rounded = round(bits, 12)
    # -0.0 becomes 0.0.
    return abs(rounded)


@simple_score(ranges={"tolerance": (0, 255), "share": (1e-9, 1)})
def is_blank(picture: Picture, *, tolerance: int = 8, share: float = 0.999) -> bool:
    """Whether the image has one colour.

    Nearly all pixels are close to the median, in each of red, green and blue.

    At least ``share`` of the values of each channel are within ``tolerance`` levels of its median.
    Source: our own.
    """
    import numpy as np

    width, height = picture.size
    size = width * height
    # Not blank if some rows alone have more pixels far from
    # any median than a blank image may have.
    rows = picture.rows(_ROWS)
    for channel in range(3):
        values = rows[..., channel].ravel()
        counts_in_rows = np.bincount(values, minlength=_LEVELS)
        most_within = size - _least_outside(counts_in_rows, tolerance)
        if most_within < share * size:
            return False
    histogram = picture.image.histogram()
    for channel in range(3):
        start = channel * _LEVELS
        counts = histogram[start : start + _LEVELS]
        if not _is_even(counts, tolerance, share):
            return False
    return True


def _least_outside(counts: "NDArray[np.intp]", tolerance: int) -> int:
    """Return the least number of values outside ``tolerance`` around any median.

    It is the least for all levels that the median may have.
    """
    import numpy as np

    # At each level: the number of values below it.
    below = np.concatenate(([0], np.cumsum(counts)))
    width = min(2 * tolerance + 1, _LEVELS)
    within = below[width:] - below[:-width]
    return int(below[-1] - within.max())


def _is_even(counts: list[int], tolerance: int, share: float) -> bool:
    """Return whether a channel has nearly one value.

    At least ``share`` of its values must be within ``tolerance`` of their median.
    """
    size = sum(counts)
    median = _median(counts)
    lowest = max(0, median - tolerance)
    highest = median + tolerance
    within = sum(counts[lowest : highest + 1])
    return within >= share * size


def _median(counts: list[int]) -> int:
    """Return the lower median of values that are given by the number of each."""
    size = sum(counts)
    for level, up_to_level in enumerate(accumulate(counts)):
        if 2 * up_to_level >= size:
            return level
    return len(counts)


@simple_score(ranges={"tolerance": (0, 255), "share": (1e-9, 1)})
def greyscale(picture: Picture, *, tolerance: int = 8, share: float = 0.999) -> bool:
    """Whether the image has no colours, whatever the mode of its file.

    Red, green and blue are nearly the same.

    They differ by at most ``tolerance`` levels in at least ``share`` of the pixels. Source:
    cleanvision's grayscale, which goes by the mode, and finds no grey image that is stored in
    colours.
    """
    import numpy as np

    pixels = picture.pixels
    highest = np.maximum.reduce(pixels, axis=2)
    lowest = np.minimum.reduce(pixels, axis=2)
    is_grey = highest - lowest <= tolerance
    return bool(is_grey.mean() >= share)
