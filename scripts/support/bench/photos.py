"""Pictures with the statistics of photographs, drawn from a seed.

They have soft shapes at every size, grain, and a little colour.
"""

import io
import random
import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

# About 20 KB, 0.3 MB and 1.5 MB as JPEG.
SMALL, MEDIUM, LARGE = (352, 264), (1632, 1224), (4000, 3000)
# Else 86.
QUALITY = {SMALL: 85}


def photographs(
    size: tuple[int, int], count: int, seed: int, *, progressive: bool = False
) -> list[bytes]:
    """Return ``count`` different JPEGs with 4:2:0 colour."""
    rng = np.random.default_rng(seed)
    return [_photograph(size, rng, progressive=progressive) for _ in range(count)]


def with_comment(jpeg: bytes, comment: bytes) -> bytes:
    """Put a comment after the first marker: other bytes, the same picture."""
    return jpeg[:2] + b"\xff\xfe" + struct.pack(">H", len(comment) + 2) + comment + jpeg[2:]


def damaged(jpeg: bytes, rng: random.Random, *, together: bool) -> bytes:
    """Overwrite 8 bytes of the entropy-coded data with random ones: 8 neighbours, or 8 anywhere."""
    start = jpeg.index(b"\xff\xda")
    start += 2 + struct.unpack_from(">H", jpeg, start + 2)[0]
    first = rng.randrange(start, len(jpeg) - 2 - 8)
    positions: Sequence[int] = range(first, first + 8)
    if not together:
        positions = [rng.randrange(start, len(jpeg) - 2) for _ in range(8)]
    data = bytearray(jpeg)
    for position in positions:
        data[position] = rng.randrange(256)
    return bytes(data)


def _photograph(size: tuple[int, int], rng: np.random.Generator, *, progressive: bool) -> bytes:
    width, height = size
    light = np.zeros((height, width), np.float32)
    colour = np.zeros((2, height, width), np.float32)
    cells, octave = 2, 0
    while cells < width:
        # The amplitude halves less than the size does: 1 /
        # f^0.9, near what pictures of nature have.
        light += _noise(size, cells, rng) * 70 / cells**0.5
        if octave < 5:
            colour += np.stack([_noise(size, cells, rng) for _ in range(2)]) * 30 / cells**0.8
        cells, octave = cells * 2, octave + 1
    light += 120 + rng.normal(0, 2.5, light.shape).astype(np.float32)
    planes = np.stack([light, *(colour + 128)], axis=-1)
    image = Image.fromarray(np.clip(planes, 0, 255).astype(np.uint8), "YCbCr")
    buffer = io.BytesIO()
    image.save(
        buffer, "JPEG", quality=QUALITY.get(size, 86), subsampling="4:2:0", progressive=progressive
    )
    return buffer.getvalue()


def _noise(size: tuple[int, int], cells: int, rng: np.random.Generator) -> NDArray[np.float32]:
    rows = max(2, cells * size[1] // size[0])
    field = Image.fromarray(rng.normal(0, 1, (rows, cells)).astype(np.float32))
    return np.asarray(field.resize(size, Image.Resampling.BICUBIC))
