"""Image files for generated shards: valid ones of every kind that trains, and broken ones."""

import io
import struct
import warnings
import zlib
from collections.abc import Callable
from random import Random

Maker = Callable[[Random], bytes]

FORMATS = {
    "jpg": "JPEG",
    "jpeg": "JPEG",
    "png": "PNG",
    "webp": "WEBP",
    "gif": "GIF",
    "bmp": "BMP",
    "tif": "TIFF",
}


def picture(rng: Random, extension: str = "jpg", mode: str = "RGB", **save: object) -> bytes:
    """Return a small valid image in the format that the extension promises."""
    from PIL import Image

    size = (rng.randint(1, 32), rng.randint(1, 32))
    image = Image.frombytes("RGB", size, rng.randbytes(3 * size[0] * size[1])).convert(mode)
    return _saved(image, FORMATS[extension], **save)


def _saved(image: object, image_format: str, **save: object) -> bytes:
    stream = io.BytesIO()
    with warnings.catch_warnings():
        # Of rare formats, as long as Pillow writes them.
        warnings.simplefilter("ignore", DeprecationWarning)
        image.save(stream, image_format, **save)  # type: ignore[attr-defined]
    return stream.getvalue()


_RARE = (
    "BMP",
    "DDS",
    "DIB",
    "GIF",
    "ICNS",
    "ICO",
    "IM",
    "MPO",
    "PCX",
    "PPM",
    "QOI",
    "SGI",
    "TGA",
    "TIFF",
)


def _disguised(rng: Random) -> bytes:
    """Return an image in a rare format, whatever its name is.

    Pillow recognises the format by the first bytes.
    """
    from PIL import Image

    size = (rng.randint(1, 32), rng.randint(1, 32))
    image = Image.frombytes("RGB", size, rng.randbytes(3 * size[0] * size[1]))
    image_format = rng.choice(_RARE)
    return _saved(
        image.resize((16, 16)) if image_format in ("ICNS", "ICO") else image, image_format
    )


def _compressed_tiff(rng: Random) -> bytes:
    return picture(
        rng, "tif", compression=rng.choice(("tiff_lzw", "packbits", "tiff_adobe_deflate", "jpeg"))
    )


def _bad_checksum(rng: Random) -> bytes:
    data = bytearray(picture(rng, "png"))
    data[29 + rng.randrange(4)] ^= 1 + rng.randrange(255)  # that of the header
    return bytes(data)


def _long_text(rng: Random) -> bytes:
    """Return a PNG whose compressed text unpacks to more than Pillow allows, or to just as much."""
    data = picture(rng, "png")
    text = b"Comment\0\0" + zlib.compress(bytes(rng.choice((1 << 20, (1 << 20) + 1))))
    return data[:33] + _chunk(b"zTXt", text) + data[33:]


def _mode(extension: str, mode: str) -> Maker:
    return lambda rng: picture(rng, extension, mode)


def _deep(rng: Random) -> bytes:
    from PIL import Image

    return _saved(Image.frombytes("I;16", (8, 8), rng.randbytes(128)), "PNG")


def _float(rng: Random) -> bytes:
    from PIL import Image

    return _saved(Image.new("F", (8, 8), rng.random()), "TIFF")


def _animated(image_format: str) -> Maker:
    def make(rng: Random) -> bytes:
        from PIL import Image

        frames = [
            Image.new("RGB", (8, 8), (rng.randrange(256), 0, index * 80)) for index in range(3)
        ]
        return _saved(frames[0], image_format, save_all=True, append_images=frames[1:])

    return make


def _rotated(rng: Random) -> bytes:
    from PIL import Image

    exif = Image.Exif()
    exif[0x0112] = rng.randint(1, 8)
    return picture(rng, "jpg", exif=exif)


def _bad_exif(rng: Random) -> bytes:
    return picture(rng, "jpg", exif=b"Exif\0\0" + rng.randbytes(40))


def _transparent_palette(rng: Random) -> bytes:
    return picture(rng, "png", "P", transparency=rng.randrange(256))


def png_header(width: int, height: int) -> bytes:
    """Return the first bytes of a PNG of any size, without its pixels."""
    head = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + head + struct.pack(">I", zlib.crc32(head))


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def huge_png(width: int, height: int) -> bytes:
    """Return a whole PNG of one colour, 1 bit a pixel: some KiB for tens of megapixels."""
    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    packer = zlib.compressobj(9)
    row = b"\0" * (1 + (width + 7) // 8)
    data = b"".join(packer.compress(row) for _ in range(height)) + packer.flush()
    return (
        b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + _chunk(b"IDAT", data) + _chunk(b"IEND", b"")
    )


SOUND: dict[str, Maker] = {
    "cmyk": _mode("jpg", "CMYK"),
    "grey": _mode("jpg", "L"),
    "one-bit": _mode("png", "1"),
    "palette": _mode("png", "P"),
    "transparent-palette": _transparent_palette,
    "alpha": _mode("png", "RGBA"),
    "grey-alpha": _mode("png", "LA"),
    "deep": _deep,
    "float": _float,
    "animated-gif": _animated("GIF"),
    "animated-png": _animated("PNG"),
    "animated-webp": _animated("WEBP"),
    "rotated": _rotated,
    "bad-exif": _bad_exif,
    "progressive": lambda rng: picture(rng, "jpg", progressive=True),
    "png-in-disguise": lambda rng: picture(rng, "png"),
    "webp-in-disguise": lambda rng: picture(rng, "webp"),
    "rare-in-disguise": _disguised,
    "compressed-tiff": _compressed_tiff,
    "with-a-tail": lambda rng: picture(rng, "jpg") + rng.randbytes(rng.randint(1, 600)),
}


COLOURED: dict[str, Maker] = {  # as Pillow opens them: no grey, no palette
    name: make
    for name, make in SOUND.items()
    if name
    not in ("grey", "one-bit", "palette", "transparent-palette", "deep", "float", "animated-gif")
    and name != "rare-in-disguise"
}


def _cut(data: bytes, rng: Random) -> bytes:
    return data[: rng.randrange(len(data))]


def _flipped(data: bytes, rng: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.randint(1, 8)):
        changed[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(changed)


def _zeroed(data: bytes, rng: Random) -> bytes:
    start = rng.randrange(len(data))
    return data[:start] + bytes(len(data) - start)


def _damaged(
    damage: Callable[[bytes, Random], bytes], sound: dict[str, Maker], formats: tuple[str, ...]
) -> Maker:
    def make(rng: Random) -> bytes:
        plain = rng.random() < 0.5
        data = picture(rng, rng.choice(formats)) if plain else sound[rng.choice(sorted(sound))](rng)
        return damage(data, rng)

    return make


def _broken(sound: dict[str, Maker], formats: tuple[str, ...]) -> dict[str, Maker]:
    return {
        "no-bytes": lambda rng: b"",
        "html": lambda rng: b"<!DOCTYPE html><html><body>404 Not Found</body></html>",
        "text": lambda rng: b"image not available",
        "noise": lambda rng: rng.randbytes(rng.randint(1, 400)),
        "svg": lambda rng: b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>',
        "cut": _damaged(_cut, sound, formats),
        "flipped": _damaged(_flipped, sound, formats),
        "zeroed": _damaged(_zeroed, sound, formats),
        "bad-checksum": _bad_checksum,
        "long-text": _long_text,
        "bomb": lambda rng: png_header(20_000, 20_000),
        "large-header-only": lambda rng: png_header(6_000, 6_000),
        "nothing-inside": lambda rng: png_header(8, 8),
    }


BROKEN = _broken(SOUND, tuple(FORMATS))
BROKEN_COLOURED = _broken(COLOURED, ("jpg", "png", "webp", "bmp"))
