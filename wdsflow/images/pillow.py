"""Pillow as it comes: its own limits and no warnings, whatever the program around us has set."""

import os
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


@contextmanager
def silent_stderr() -> Iterator[None]:
    """Send what C libraries write to the standard error stream to nowhere: libtiff reports every damage there."""
    try:
        kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    except OSError:  # no such stream, or no descriptors left
        yield
        return
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
