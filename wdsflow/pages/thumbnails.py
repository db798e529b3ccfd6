"""Small pictures in the text of a page."""

import base64
import io
from typing import NamedTuple

from wdsflow.stages.base import Dropped, StageError
from wdsflow.stages.decode import Decode

# Pixels of the longer side.
SIDE = 128
# Bytes of memory for one image.
_BUDGET = 512 << 20
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
        if not str(error):
            return Thumbnail("")
        reason = getattr(error, "slug", "") or "cannot be shown"
        return Thumbnail("", f"{reason}: {error}")
    image.thumbnail((SIDE, SIDE))
    out = io.BytesIO()
    image.save(out, "WEBP", quality=60, method=4)
    text = base64.b64encode(out.getvalue()).decode()
    return Thumbnail(f"data:image/webp;base64,{text}")
