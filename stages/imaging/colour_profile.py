"""Colour profiles of images."""

from io import BytesIO
from typing import TYPE_CHECKING

from wdsflow.images.pillow import open_image, quiet_pillow

if TYPE_CHECKING:
    from PIL.Image import Image


def in_srgb(image: "Image", data: bytes) -> "Image":
    """Return a small image with its colours converted to sRGB.

    The colour profile is that of the encoded original, ``data``. The image is unchanged if the
    profile cannot be used.
    """
    from PIL import ImageCms

    if image.mode not in {"RGB", "RGBA"}:
        return image
    with quiet_pillow(), open_image(data) as original:
        profile_bytes = original.info.get("icc_profile")
    if not profile_bytes:
        return image
    try:
        profile = ImageCms.ImageCmsProfile(BytesIO(profile_bytes))
        rgb = image.convert("RGB")
        srgb = ImageCms.createProfile("sRGB")
        converted = ImageCms.profileToProfile(rgb, profile, srgb, outputMode="RGB") or rgb
    except (ImageCms.PyCMSError, OSError, ValueError, AttributeError, TypeError):
        # A damaged profile, or one of other colours.
        return image
    if image.mode == "RGBA":
        converted.putalpha(image.getchannel("A"))
    return converted
