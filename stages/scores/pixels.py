"""Scores from the pixels of an image."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, cached_property, lru_cache
from itertools import accumulate
from math import fsum, log2, sqrt
from typing import TYPE_CHECKING, Literal

from ..base import Dropped, StageError
from ..imaging.shrink import SCORED, aim_of_scores
from .base import ScoreError, Tolerance, simple_score

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image

    from wdsflow.images.header import ImageHeader

    from ..decode import Aim, Decode
    from ..imaging.resample import Pixels
    from ..imaging.shrink import Shrinker, Small


# libjpeg-turbo gives arrays, Pillow its own images.
_JPEG = b"\xff\xd8\xff"

# Every 16th row is checked first, which is enough for most pictures.
_ROWS = 16

_HASHED_SIDE, _LOWEST = 32, 8
_FIXED_POINT = 1 << 20


class Picture:
    """An image, decoded once and no larger than is needed.

    RGB, of full size if the longer side has less than 1024 pixels, otherwise at 1/2, 1/4, 1/8 ...
    of it, the least at which no side of ``luma`` has to be enlarged (libjpeg's scales for JPEG,
    means of blocks for others). Transparency is dropped and EXIF's orientation ignored, as in
    training. The effect on scores: ``scale_tolerance``.
    """

    def __init__(self, decoded: "Image | NDArray[np.uint8]") -> None:
        # Not converted before it is needed: conversion takes as long as some scores.
        self._decoded = decoded

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        height, width = getattr(self._decoded, "shape", (0, 0))[:2]
        return (width, height) if width else self.image.size

    @property
    def image(self) -> "Image":
        """As a PIL image."""
        import numpy as np

        if isinstance(self._decoded, np.ndarray):
            from PIL import Image

            from ..imaging.resample import box_of, note_box

            image = Image.fromarray(self._decoded)
            note_box(image, box_of(self._decoded))
            self._decoded = image
        return self._decoded

    @property
    def pixels(self) -> "NDArray[np.uint8]":
        """As a read-only array (height, width, 3), which all scores share."""
        import numpy as np

        from ..imaging.resample import to_array

        decoded = self._decoded
        pixels = decoded.view(np.ndarray) if isinstance(decoded, np.ndarray) else to_array(decoded)
        pixels.flags.writeable = False
        return pixels

    def rows(self, step: int) -> "NDArray[np.uint8]":
        """Return every ``step``-th row of pixels, unchanged."""
        import numpy as np
        from PIL.Image import Resampling

        if isinstance(self._decoded, np.ndarray):
            return self._decoded[step // 2 :: step]
        width, height = self._decoded.size
        return np.asarray(self._decoded.resize((width, max(1, height // step)), Resampling.NEAREST))

    @cached_property
    def luma(self) -> "Image":
        """The image in grey, at most 512 x 512 pixels: larger ones are made smaller, with their aspect ratio kept.

        0.299 R + 0.587 G + 0.114 B, ITU-R BT.601, rounded to 0..255. Pillow's bilinear filter,
        antialiased; images of at most 512 x 512 keep their pixels.
        """
        from PIL.Image import Resampling

        from ..imaging.resample import box_of

        # Pillow's kernel, even if torch is installed: values must not depend on optional libraries.
        grey, size = self.image.convert("L"), SCORED.scaled(*self.image.size)
        return (
            grey
            if size == grey.size
            else grey.resize(size, Resampling.BILINEAR, box=box_of(self.image))
        )

    @cached_property
    def histogram(self) -> list[int]:
        """How many pixels of ``luma`` have each of the 256 levels."""
        return self.luma.histogram()


def decode_picture(data: bytes, budget: int) -> Picture:
    """Decode an image. Raises ScoreError, "over-budget" if that would take more than ``budget`` bytes."""
    output: Literal["numpy", "pil"] = "numpy" if data.startswith(_JPEG) else "pil"
    return Picture(decoded(data, budget, "fast", aim_of_scores, k=1.0, output=output))


def decoded(
    data: bytes,
    budget: int,
    mode: Literal["fast", "exact"],
    aim: "Aim | None" = None,
    *,
    k: float = 2.0,
    output: Literal["pil", "numpy"] = "numpy",
) -> "Pixels":
    """Return an array (height, width, 3), or a PIL image; ``box_of`` returns the part of it that is the picture.

    ``mode``, ``k`` and ``output``: see ``Decode``. Raises ScoreError as ``decode_picture``.
    """
    with _as_score_errors(budget):
        found: Pixels = _decoder(budget, mode, k, output).decode(data, aim=aim)
    return found


def shrunk(
    data: bytes, header: "ImageHeader", shrinker: "Shrinker", budget: int, picture: Picture | None
) -> "Small | None":
    """Return an encoded image made smaller, None if it is small enough. Raises ScoreError.

    ``picture``: the same image if it is decoded already; it is used if it has the pixels that the
    result needs.
    """
    shared = picture is not None and shrinker.shares(header)
    with _as_score_errors(budget):
        return shrinker.of(
            data, header, budget, picture.image if picture is not None and shared else None
        )


@contextmanager
def _as_score_errors(budget: int) -> Iterator[None]:
    try:
        yield
    except StageError as error:
        raise ScoreError(error.slug, str(error)) from None
    except Dropped as error:
        raise ScoreError(
            error.reason, f"decoding it would take more than {budget:,} bytes"
        ) from None


@lru_cache(maxsize=8)
def _decoder(
    budget: int, mode: Literal["fast", "exact"], k: float, output: Literal["pil", "numpy"]
) -> "Decode":
    from ..decode import Decode

    return Decode(mode=mode, k=k, max_pixels=None, budget=budget, output=output)


def full_size(data: bytes, budget: int) -> "Pixels":
    """Return a read-only array (height, width, 3) of an encoded image. Raises ScoreError."""
    import numpy as np

    pixels = decoded(data, budget, "exact").view(np.ndarray)
    pixels.flags.writeable = False
    return pixels


@simple_score(low=0, scale_tolerance=Tolerance(0.35, "of the value"))
def blur(picture: Picture) -> float:
    """Variance of the Laplacian of the luma (levels 0 to 255): low is blurred or empty, high is sharp or noisy.

    Kernel [[0, 1, 0], [1, -4, 1], [0, 1, 0]], borders mirrored, as OpenCV's ``Laplacian(grey,
    CV_64F).var()``, on the luma of at most 512 pixels per side: thresholds for full-size images do
    not apply. From 0 on. Images that are more than twice as large are decoded at a reduced scale,
    which leaves more detail: on photographs the value is 20 % higher on average, and at most 32 %,
    than without. Source: Pech-Pacheco et al., Diatom autofocusing in brightfield microscopy, ICPR
    2000.
    """
    import numpy as np

    luma = np.pad(np.asarray(picture.luma, np.int16), 1, mode="reflect")
    edges = (
        luma[:-2, 1:-1] + luma[2:, 1:-1] + luma[1:-1, :-2] + luma[1:-1, 2:] - 4 * luma[1:-1, 1:-1]
    )
    count, total = edges.size, int(edges.sum(dtype=np.int64))
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
    # Rounded, because logarithms differ in their last bit between machines.
    return abs(round(fsum(count / size * log2(size / count) for count in counts), 12))


@simple_score(ranges={"tolerance": (0, 255), "share": (1e-9, 1)})
def is_blank(picture: Picture, *, tolerance: int = 8, share: float = 0.999) -> bool:
    """Whether the image has one colour: nearly all pixels are close to the median, in each of red, green and blue.

    At least ``share`` of the values of each channel are within ``tolerance`` levels of its median.
    Source: our own.
    """
    import numpy as np

    width, height = picture.size
    rows = picture.rows(_ROWS)
    # Not blank if these rows alone have more pixels far from any median than a blank image may
    # have.
    for channel in range(3):
        counts = np.bincount(rows[..., channel].ravel(), minlength=256)
        if width * height - _least_off(counts, tolerance) < share * width * height:
            return False
    levels = picture.image.histogram()
    return all(_even(levels[start : start + 256], tolerance, share) for start in (0, 256, 512))


def _least_off(counts: "NDArray[np.intp]", tolerance: int) -> int:
    """Return the least number of values outside of a range of ``tolerance`` around a median, whichever it is."""
    import numpy as np

    below = np.concatenate(([0], np.cumsum(counts)))
    wide = min(2 * tolerance + 1, 256)
    return int(below[-1] - (below[wide:] - below[:-wide]).max())


def _even(counts: list[int], tolerance: int, share: float) -> bool:
    size = sum(counts)
    median = next(level for level, below in enumerate(accumulate(counts)) if 2 * below >= size)
    return sum(counts[max(0, median - tolerance) : median + tolerance + 1]) >= share * size


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

    small = np.asarray(
        picture.luma.resize((_HASHED_SIDE, _HASHED_SIDE), Image.Resampling.LANCZOS), np.int64
    )
    waves = _waves()
    # Integers: in floating point, the bits of a flat image would be rounding errors, which depend
    # on the machine.
    frequencies = (waves @ small @ waves.T).ravel()
    middle = np.sort(frequencies)[31:33].sum()
    return np.packbits(2 * frequencies > middle).tobytes()


@cache
def _waves() -> "NDArray[np.int64]":
    """Return the 8 lowest cosines at 32 places, times 2**20."""
    import numpy as np

    steps = np.outer(np.arange(_LOWEST), 2 * np.arange(_HASHED_SIDE) + 1)
    waves: NDArray[np.int64] = np.rint(
        np.cos(np.pi * steps / (2 * _HASHED_SIDE)) * _FIXED_POINT
    ).astype(np.int64)
    return waves
