"""Small pictures of images, inside a page."""

import base64
import io
from collections.abc import Iterable
from typing import NamedTuple

from wdsflow.shards.shard_names import IMAGE_FIELDS
from wdsflow.stages.base import Dropped, StageError
from wdsflow.stages.decode import Decode

SIDE = 128  # pixels of the longer side
_BUDGET = 512 << 20  # bytes of memory for one image
_DECODE = Decode(target=SIDE, mode="fast", budget=_BUDGET, orientation="ignore")


class Thumbnail(NamedTuple):
    """``url`` holds the picture, "" if there is none; ``trouble`` says why."""

    url: str
    trouble: str = ""


def thumbnail(data: bytes) -> Thumbnail:
    """Return a picture of at most ``SIDE`` pixels a side, as WebP in a ``data:`` url.

    Decoding takes at most 512 MiB; what is larger, damaged or no image has no picture.
    """
    try:
        image = _DECODE.decode(data)
    except (StageError, Dropped) as error:
        return Thumbnail(
            "", f"{getattr(error, 'slug', '') or 'cannot be shown'}: {error}" if str(error) else str(error)
        )
    image.thumbnail((SIDE, SIDE))
    out = io.BytesIO()
    image.save(out, "WEBP", quality=60, method=4)
    return Thumbnail(f"data:image/webp;base64,{base64.b64encode(out.getvalue()).decode()}")


def image_field(fields: Iterable[str]) -> str | None:
    """Return the field of a sample's image: the one that readers take, or the first that is an image by its name."""
    names = {name.lower().rpartition(".")[2]: name for name in reversed([*fields])}
    return next((names[each] for each in (*IMAGE_FIELDS, "gif", "bmp", "tiff", "tif") if each in names), None)
