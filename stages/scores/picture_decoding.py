"""Decodes images for scores; what prevents it is a ScoreError."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from ..base import Dropped, StageError
from ..imaging.scored_size import aim_of_scores
from .base import ScoreError
from .picture import Picture

if TYPE_CHECKING:
    from wdsflow.images.header import ImageHeader

    from ..decode import Aim, Decode
    from ..imaging.boxes import Pixels
    from ..imaging.shrink import Shrinker, ShrunkImage

# libjpeg-turbo gives arrays, Pillow its own images.
_JPEG = b"\xff\xd8\xff"


def decode_picture(data: bytes, budget: int) -> Picture:
    """Decode an image.

    Raises ScoreError, with "over-budget" if decoding would take more than ``budget`` bytes.
    """
    output: Literal["numpy", "pil"] = "numpy" if data.startswith(_JPEG) else "pil"
    return Picture(decode_image(data, budget, "fast", aim_of_scores, k=1.0, output=output))


def decode_image(
    data: bytes,
    budget: int,
    mode: Literal["fast", "exact"],
    aim: "Aim | None" = None,
    *,
    k: float = 2.0,
    output: Literal["pil", "numpy"] = "numpy",
) -> "Pixels":
    """Return an array (height, width, 3), or a PIL image.

    ``box_of`` returns the part of it that is the picture.

    ``mode``, ``k`` and ``output``: see ``Decode``. Raises ScoreError as ``decode_picture``.
    """
    with _as_score_errors(budget):
        pixels: Pixels = _decoder(budget, mode, k, output).decode(data, aim=aim)
    return pixels


def shrink_image(
    data: bytes, header: "ImageHeader", shrinker: "Shrinker", budget: int, picture: Picture | None
) -> "ShrunkImage | None":
    """Return an encoded image made smaller, None if it is small enough. Raises ScoreError.

    ``picture``: the same image if it is decoded already; it is used if it has the pixels that the
    result needs.
    """
    decoded_image = None
    if picture is not None and shrinker.can_use_picture(header):
        decoded_image = picture.image
    with _as_score_errors(budget):
        return shrinker.shrink(data, header, budget, decoded_image)


@contextmanager
def _as_score_errors(budget: int) -> Iterator[None]:
    try:
        yield
    except StageError as error:
        raise ScoreError(error.slug, str(error)) from None
    except Dropped as error:
        detail = f"decoding it would take more than {budget:,} bytes"
        raise ScoreError(error.reason, detail) from None


@lru_cache(maxsize=8)
def _decoder(
    budget: int, mode: Literal["fast", "exact"], k: float, output: Literal["pil", "numpy"]
) -> "Decode":
    from ..decode import Decode

    return Decode(mode=mode, k=k, max_pixels=None, budget=budget, output=output)


def decode_full_size(data: bytes, budget: int) -> "Pixels":
    """Return a read-only array (height, width, 3) of an encoded image. Raises ScoreError."""
    import numpy as np

    pixels = decode_image(data, budget, "exact").view(np.ndarray)
    pixels.flags.writeable = False
    return pixels
