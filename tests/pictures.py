"""Images of many kinds, drawn by Pillow, and ways to hurt them."""

import random
from collections.abc import Iterator
from functools import cache
from io import BytesIO
from typing import Any

import numpy as np
from PIL import Image, PngImagePlugin


def encoded(image, kind, **options):
    if kind == "PNG":
        # Pillow's default makes files a little smaller, in three times as long.
        options.setdefault("compress_level", 1)
    stream = BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def photo(width=96, height=72, seed=0):
    """A smooth picture with some grain: what a camera gives, more or less."""
    rng = random.Random(seed)
    small = Image.frombytes("RGB", (7, 5), rng.randbytes(105))
    grain = Image.frombytes("RGB", (width, height), rng.randbytes(3 * width * height))
    return Image.blend(small.resize((width, height), Image.Resampling.BICUBIC), grain, 0.08)


@cache
def smooth(width, height, seed=0):
    """A picture like a photograph: soft shapes at several sizes, a little grain."""
    rng = np.random.default_rng(seed)
    light = np.zeros((height, width, 3), np.float32)
    cells = 3
    while cells < width / 2:
        field = rng.normal(0, 60 / cells**0.6, (max(2, cells * height // width), cells, 3)).astype(
            np.float32
        )
        channels = [
            Image.fromarray(field[..., each]).resize((width, height), Image.Resampling.BICUBIC)
            for each in range(3)
        ]
        light += np.stack([np.asarray(channel) for channel in channels], axis=-1)
        cells *= 2
    return Image.fromarray(
        np.clip(light + 120 + rng.normal(0, 2, light.shape), 0, 255).astype(np.uint8)
    )


def noise(width, height, mode="RGB", seed=0):
    return Image.frombytes(
        "RGB", (width, height), random.Random(seed).randbytes(3 * width * height)
    ).convert(mode)


def exif(orientation=None, filler=20):
    block = Image.Exif()
    block[0x010E] = "x" * filler
    if orientation is not None:
        block[0x0112] = orientation
    return block.tobytes()


JPEG_OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "progressive": {"progressive": True},
    "444": {"quality": 95, "subsampling": 0},
    "422": {"subsampling": 1},
    "optimized": {"optimize": True},
    "restarts": {"restart_marker_rows": 1},
    "icc": {"icc_profile": b"i" * 200},
    "large-icc": {"icc_profile": b"i" * 300_000},
    "comment": {"comment": b"c" * 60_000},
    "xmp": {"xmp": b'<x tiff:Orientation="6"/>'},
    "rgb": {"keep_rgb": True},
}


def _jpegs() -> Iterator[tuple[str, bytes]]:
    for size in ((1, 1), (5, 3), (96, 72), (17, 130)):
        for mode in ("RGB", "L", "CMYK", "1"):
            for name, options in JPEG_OPTIONS.items():
                colour = mode in ("RGB", "CMYK")
                if colour or not {"subsampling", "keep_rgb"} & options.keys():
                    yield (
                        f"jpeg-{mode}-{name}-{size}",
                        encoded(noise(*size, mode), "JPEG", **options),
                    )
    for orientation in (1, 3, 6, 8, 0, 9, None):
        for filler in (20, 30_000):
            yield (
                f"jpeg-exif-{orientation}-{filler}",
                encoded(photo(), "JPEG", exif=exif(orientation, filler)),
            )
    both = {"exif": exif(None), "xmp": b"<x><tiff:Orientation>8</x>"}
    yield "jpeg-exif-xmp", encoded(photo(), "JPEG", **both)


def _pngs() -> Iterator[tuple[str, bytes]]:
    for mode in ("RGB", "L", "RGBA", "LA", "P", "1", "I;16"):
        image = noise(40, 33, "I").convert("I;16") if mode == "I;16" else noise(40, 33, mode)
        for name, options in {
            "": {},
            "-icc": {"icc_profile": b"q" * 900},
            "-exif": {"exif": exif(6)},
            "-exif-0": {"exif": exif(0)},
        }.items():
            yield f"png-{mode}{name}", encoded(image, "PNG", **options)
    transparencies = {"P": (3, bytes(range(256))), "L": (7,), "RGB": ((1, 2, 3),)}
    for mode, values in transparencies.items():
        for value in values:
            yield f"png-{mode}-trns", encoded(noise(40, 33, mode), "PNG", transparency=value)
    text = PngImagePlugin.PngInfo()
    text.add_itxt("XML:com.adobe.xmp", "<tiff:Orientation>3</")
    yield "png-xmp", encoded(photo(), "PNG", pnginfo=text)
    frames = [noise(40, 33, seed=seed) for seed in (1, 2)]
    yield "png-animated", encoded(photo(40, 33), "PNG", save_all=True, append_images=frames)


def _gifs_webps_bmps() -> Iterator[tuple[str, bytes]]:
    frames = [noise(40, 33, seed=seed) for seed in (1, 2)]
    many = {"save_all": True, "append_images": frames, "loop": 0}
    for mode in ("P", "L", "1", "RGB", "RGBA"):
        image = noise(40, 33, mode)
        for name, options in {
            "": {},
            "-comment": {"comment": b"c" * 5000},
            "-animated": many,
        }.items():
            yield f"gif-{mode}{name}", encoded(image, "GIF", **options)
        if mode != "1":
            for name, options in {
                "": {},
                "-lossless": {"lossless": True},
                "-animated": many,
            }.items():
                yield f"webp-{mode}{name}", encoded(image, "WEBP", **options)
        yield f"bmp-{mode}", encoded(image, "BMP")
    yield "webp-icc", encoded(photo(), "WEBP", icc_profile=b"k" * 50)
    for colours in (2, 16):
        yield f"bmp-P{colours}", encoded(photo().quantize(colours), "BMP")
        yield f"gif-P{colours}", encoded(photo().quantize(colours), "GIF")


@cache
def usual_images() -> dict[str, bytes]:
    """Files of the five formats that are read in full, by a name that says what is in them."""
    return {**dict(_jpegs()), **dict(_pngs()), **dict(_gifs_webps_bmps())}


@cache
def other_images() -> dict[str, bytes]:
    """One small file of each other format that Pillow writes here."""
    found = {}
    for name in (
        "TIFF",
        "JPEG2000",
        "AVIF",
        "ICO",
        "PPM",
        "TGA",
        "QOI",
        "ICNS",
        "DDS",
        "PCX",
        "SGI",
        "XBM",
        "EPS",
    ):
        try:
            found[name.lower()] = encoded(
                photo(64, 48).convert("1" if name == "XBM" else "RGB"), name
            )
        except (OSError, KeyError, ValueError):
            continue  # this build of Pillow has no encoder for it
    for compression in ("tiff_lzw", "tiff_deflate", "packbits"):
        found[compression] = encoded(photo(64, 48), "TIFF", compression=compression)
    return found


def hurt(data: bytes, rng: random.Random) -> bytes:
    """Return a copy with one damage: bytes changed, cut out, put in, cut off, appended."""
    hurt = bytearray(data)
    size = len(hurt)
    if not size:
        return b"?"
    place = rng.randrange(size) if rng.random() < 0.6 else rng.randrange(min(size, 200))
    kind = rng.randrange(9)
    if kind == 0:
        hurt[place : place + 8] = rng.randbytes(min(8, size - place))
    elif kind == 1:
        hurt[place] ^= 1 << rng.randrange(8)
    elif kind == 2:
        hurt[place : place + 200] = bytes(min(200, size - place))
    elif kind == 3:
        del hurt[place:]
    elif kind == 4:
        del hurt[place : place + rng.randrange(1, 40)]
    elif kind == 5:
        hurt[place:place] = rng.randbytes(rng.randrange(1, 20))
    elif kind == 6:
        hurt[place:] = b"\xff\xd9"
    elif kind == 7:
        hurt += rng.randbytes(rng.randrange(1, 300))
    else:
        hurt[place : place + 2] = bytes((0xFF, rng.randrange(256)))
    return bytes(hurt)


def scan_data(jpeg: bytes) -> int:
    """Return where the entropy-coded data of a JPEG start."""
    position = 2
    while True:
        marker, length = (
            jpeg[position + 1],
            int.from_bytes(jpeg[position + 2 : position + 4], "big"),
        )
        position += 2 + length
        if marker == 0xDA:
            return position


def psnr(one, other):
    """Peak signal-to-noise ratio of two arrays of 8 bits, in dB."""
    error = np.asarray(one).astype(int) - np.asarray(other).astype(int)
    return 10 * np.log10(255**2 / max(float((error**2).mean()), 1e-9))
