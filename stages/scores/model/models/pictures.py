"""From an encoded image to the input of a model. numpy and Pillow are imported on first use."""

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from ....base import Dropped, StageError
from ...base import ScoreError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ....decode import Aim, Decode
    from ....imaging.resample import Kernel
    from ..picture_score import Flip

    Pixels = NDArray[np.uint8]

Size = tuple[int, int]  # height, width
How = Literal["fast", "exact"]


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """Resize the whole picture, then crop its centre, or pad it with ``fill``, to ``size``.

    ``fit`` "short": the short side becomes that of ``size``, a square; "both": both sides do, without regard to the
    aspect ratio; "cover": the smallest that covers ``size``; "within": the largest that fits into it.
    """

    size: Size
    fit: Literal["short", "both", "cover", "within"]
    kernel: "Kernel" = "bicubic"
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


@dataclass(frozen=True, kw_only=True)
class Prepare:
    """Makes an array (3, height, width) of uint8 from an image: mirrored if asked, then resized and cropped.

    With ``decode`` "fast" it is decoded at a reduced scale, at least twice as large as needed: see ``Decode``.
    Transparency is dropped and EXIF's orientation ignored, as in training; more than 8 bits are scaled to 8.
    """

    geometry: Geometry
    flip: "Flip" = ""
    decode: How = "fast"

    def __call__(self, data: bytes, budget: int) -> "Pixels":
        """Return the array. Raises ScoreError, "over-budget" if decoding would take more than ``budget`` bytes."""
        size = (0, 0)

        def aim(width: int, height: int) -> Size:
            nonlocal size
            size = self._resized(width, height)
            return size

        return self._prepared(decode(data, budget, self.decode, aim), size)

    def of(self, pixels: "Pixels") -> "Pixels":
        """Return the array for a decoded picture (height, width, 3). Raises ScoreError."""
        return self._prepared(pixels, self._resized(pixels.shape[1], pixels.shape[0]))

    def _resized(self, width: int, height: int) -> Size:
        size = self.geometry.resized(width, height)
        if not all(size):
            raise ScoreError("too-long", f"an image of {width} x {height} would have a side of no pixel")
        return size

    def _prepared(self, decoded: "Pixels", size: Size) -> "Pixels":
        import numpy as np
        from PIL import Image

        from ....imaging.resample import box_of, resize_with_pillow

        geometry, decoded = self.geometry, mirrored(decoded, self.flip)
        crop = min(size[0], geometry.size[0]), min(size[1], geometry.size[1])
        # Pillow's kernel, even if torch is installed: decoders need not load torch.
        whole = Image.fromarray(np.ascontiguousarray(decoded).view(np.ndarray))
        resized = resize_with_pillow(whole, box_of(decoded), size, crop, geometry.kernel)
        pixels = np.asarray(resized).transpose(2, 0, 1)
        if crop == geometry.size:
            return np.ascontiguousarray(pixels)
        top, left = (geometry.size[0] - crop[0]) // 2, (geometry.size[1] - crop[1]) // 2
        padded: Pixels = np.full((3, *geometry.size), geometry.fill, np.uint8)
        padded[:, top : top + crop[0], left : left + crop[1]] = pixels
        return padded


@lru_cache(maxsize=8)
def _decoder(mode: How, budget: int) -> "Decode":
    from ....decode import Decode

    return Decode(mode=mode, max_pixels=None, budget=budget, output="numpy")


def decode(data: bytes, budget: int, mode: How, aim: "Aim | None" = None) -> "Pixels":
    """Return an array (height, width, 3); ``box_of`` tells which part of it is the picture. Raises ScoreError."""
    import numpy as np

    try:
        pixels = _decoder(mode, budget).decode(data, aim=aim)
    except StageError as error:
        raise ScoreError(error.slug, str(error)) from None
    except Dropped as error:
        raise ScoreError(error.reason, f"decoding it would take more than {budget:,} bytes") from None
    assert isinstance(pixels, np.ndarray)
    return pixels


def full_size(data: bytes, budget: int) -> "Pixels":
    """Return a read-only array (height, width, 3) of an encoded image. Raises ScoreError."""
    import numpy as np

    pixels = decode(data, budget, "exact").view(np.ndarray)
    pixels.flags.writeable = False
    return pixels


def mirrored(pixels: "Pixels", flip: "Flip") -> "Pixels":
    """Return an array (height, width, 3) with left and right exchanged, or top and bottom, or both."""
    if not flip:
        return pixels
    import numpy as np

    from ....imaging.resample import box_of, with_box

    height, width = pixels.shape[:2]
    left, top, right, bottom = box_of(pixels)
    if flip != "vertical":
        pixels, left, right = pixels[:, ::-1], width - right, width - left
    if flip != "horizontal":
        pixels, top, bottom = pixels[::-1], height - bottom, height - top
    return with_box(pixels.view(np.ndarray), (left, top, right, bottom))
