"""OpenCLIP's transforms on single images, up to the last pixel.

Imports torch: import this module only where it is needed.

Everything runs in several threads at once. It must not call torch on more than 32,768 values,
except for the resize, which stays in its thread: torch would start a pool of OpenMP threads for
each of our threads.
"""

from wdsflow.stages.decode import Admit, Decode
from wdsflow.stages.imaging.boxes import Pixels

from .image_part import crop_part
from .transforms import RandomCrop, ResizeAndCrop
from .whole_image import resize_whole


def transform_image(
    transform: ResizeAndCrop | RandomCrop,
    decode: Decode,
    data: bytes,
    seed: int,
    admit: Admit | None,
) -> Pixels:
    """Return an array (3, height, width) of an encoded image.

    ``seed``: of the random part. ``admit``: as for ``Decode.decode``. Raises Dropped and
    StageError.
    """
    if isinstance(transform, ResizeAndCrop):
        return resize_whole(transform, decode, data, admit)
    return crop_part(transform, decode, data, seed, admit)
