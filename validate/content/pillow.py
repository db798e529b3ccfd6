"""Pillow as it comes: its own limits and no warnings, whatever the program around us has set."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

MAX_IMAGE_PIXELS = 89_478_485  # Pillow's own: it warns above, and refuses above twice as many
BOMB_PIXELS = 2 * MAX_IMAGE_PIXELS


@contextmanager
def quiet() -> Iterator[None]:
    """Silence Pillow's warnings and put its switches to their defaults for a moment."""
    from PIL import Image, ImageFile

    limit, truncated = Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES = MAX_IMAGE_PIXELS, False
        try:
            yield
        finally:
            Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES = limit, truncated
