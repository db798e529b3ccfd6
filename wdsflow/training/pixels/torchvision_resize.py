"""Resizing of Pillow images, with the pixels of torchvision."""

from typing import TYPE_CHECKING

from PIL import Image

from wdsflow.stages.imaging.geometry import centre
from wdsflow.stages.imaging.resample import resize_with_pillow
from wdsflow.stages.imaging.torch_kernel import Kernel

from .transforms import Size

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

# Of an image resized as a whole: 10,000 x 1 would become 2 million x 224.
_MOST_PIXELS = 1 << 26


def resize_as_torchvision(image: "Picture", size: Size, crop: Size, kernel: Kernel) -> "Picture":
    """Return an image resized to (height, width), and the centre of that.

    Of very long images only the centre is computed; its levels may differ by one.
    """
    height, width = size
    if height * width > _MOST_PIXELS:
        return resize_with_pillow(image, (0, 0, *image.size), size, crop, kernel)
    if (width, height) != image.size:
        image = image.resize((width, height), Image.Resampling[kernel.upper()])
    if size == crop:
        return image
    crop_height, crop_width = crop
    top, left = centre(height, width, crop)
    return image.crop((left, top, left + crop_width, top + crop_height))
