"""The header walk gives what Pillow gives, for every kind of file that Pillow draws."""

import random
import struct
import tracemalloc
import warnings
import zlib
from io import BytesIO

import pytest
from PIL import Image

from tests.pictures import encoded, exif, hurt, noise, other_images, photo, usual_images
from wdsflow.images.header import MAX_HEADER, ImageHeader
from wdsflow.images.image_header import UNREADABLE, read_header
from wdsflow.images.orientation import exif_orientation
from wdsflow.images.webp import webp_metadata


def read(data):
    """Read a header as a scan does: 4 KiB first, more where it asks for more."""
    given = 4096
    header = read_header(data[:given])
    while header is not None and given < min(header.needs, len(data)):
        assert header.needs <= MAX_HEADER
        given = header.needs
        header = read_header(data[:given])
    return header


def by_pillow(data):
    with warnings.catch_warnings(), Image.open(BytesIO(data)) as image:
        warnings.simplefilter("ignore")
        name = {"MPO": "jpeg"}.get(image.format, image.format.lower())
        progressive = bool(image.info.get("progressive")) if name == "jpeg" else None
        orientation = None
        if name == "jpeg" or (name == "png" and {"exif", "XML:com.adobe.xmp"} & image.info.keys()):
            orientation = image.getexif().get(0x0112, 1)
        animated = getattr(image, "is_animated", False) if name in ("gif", "png", "webp") else None
        return name, image.width, image.height, image.mode, progressive, orientation, animated


def differs(data):
    header = read(data)
    name, width, height, mode, progressive, orientation, animated = by_pillow(data)
    return (
        header is None
        or header[:4] != (name, width, height, mode)
        or (progressive is not None and header.progressive != progressive)
        or (orientation is not None and header.orientation != orientation)
        or (animated is not None and header.animated != animated)
    )


def test_size_mode_and_traits_are_those_of_pillow():
    images = usual_images()
    assert len(images) > 200
    assert [name for name, data in images.items() if differs(data)] == []


def test_what_pillow_still_opens_after_damage_to_the_header_is_read_alike():
    rng = random.Random(4)
    sources = [data for name, data in usual_images().items() if name.startswith(("jpeg", "bmp"))]
    opened = different = 0
    for _ in range(3000):
        data = hurt(rng.choice(sources), rng)
        header = read(data)
        try:
            with warnings.catch_warnings(), Image.open(BytesIO(data)) as image:
                warnings.simplefilter("ignore")
                opened += 1
                expected = image.width, image.height, image.mode
        except Exception:
            continue
        different += header is None or header[1:4] != expected
    assert opened > 1000
    assert different <= opened * 0.01  # a second frame header, or one made of junk


@pytest.mark.parametrize(
    "name", ["tiff", "jpeg2000", "avif", "ppm", "tga", "qoi", "pcx", "sgi", "dds"]
)
def test_other_formats_are_known_and_sized(name):
    data = other_images().get(name)
    if data is None:
        pytest.skip(f"this Pillow cannot write {name}")
    header = read_header(data[:4096])
    assert header is not None
    assert (header.format, header.width, header.height) == (
        {"jpeg2000": "jp2"}.get(name, name),
        64,
        48,
    )


@pytest.mark.parametrize("mode", ["1", "L", "P", "I;16", "I", "F", "RGB", "RGBA", "CMYK"])
def test_modes_of_tiff_are_those_of_pillow(mode):
    data = encoded(Image.new(mode, (9, 7)), "TIFF")
    assert read_header(data).mode == by_pillow(data)[3] == mode


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (
            b"<?xml version='1.0'?>\n<!-- drawn -->\n<svg xmlns='http://www.w3.org/2000/svg'/>",
            "svg",
        ),
        (b"%PDF-1.7\n", "pdf"),
        (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(40), "heic"),
        (b"\0\0\0\x18ftypavif\0\0\0\0mif1avif" + bytes(40), "avif"),
        (b"\0\0\0\x18ftypisom\0\0\0\0isommp41" + bytes(40), "mp4"),
        (b"\xff\x0a" + bytes(40), "jxl"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n", "eps"),
        (b"\0\0\x01\0\x01\0\x10\x10" + bytes(40), "ico"),
        (b"icns" + bytes(40), "icns"),
        (b"\0\0\0\x0cJXL \r\n\x87\n" + bytes(40), "jxl"),
        (b"v/1\x01" + bytes(40), "exr"),
        (b"\xc5\xd0\xd3\xc6" + bytes(40), "eps"),
        (b"\x89HDF\r\n\x1a\n" + bytes(40), "hdf5"),
        (b"\0\0\x01\xb3" + bytes(40), "mpeg"),
        (b"\xff\x4f\xff\x51" + bytes(40), "jp2"),
        (b"II+\0" + bytes(40), "tiff"),
        (b"MM\0+" + bytes(40), "tiff"),
        (b"\xef\xbb\xbf <svg>", "svg"),
        (b"<!-- one\ntwo --><!DOCTYPE svg PUBLIC 'x'>\n<SVG\n>", "svg"),
        (b"BUFR" + bytes(40), "bufr"),
        (b"GRIB\0\0\0\1" + bytes(40), "grib"),
    ],
)
def test_magic_bytes_tell_formats_that_have_no_usual_header(data, name):
    header = read_header(data)
    assert header is not None
    assert header.format == name
    assert (name in UNREADABLE) is (name not in {"avif", "ico", "icns", "jp2", "tiff"})


def ftyp(*brands: bytes, version: bytes = bytes(4)) -> bytes:
    """Return the first box of an ISO media file: brand, version and compatible brands."""
    content = b"ftyp" + brands[0] + version + b"".join(brands[1:])
    return struct.pack(">I", 4 + len(content)) + content


@pytest.mark.parametrize(
    ("data", "name"),
    [
        *(
            (ftyp(brand), "heic")
            for brand in (b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis", b"mif1", b"msf1")
        ),
        *((ftyp(brand), "avif") for brand in (b"avif", b"avis")),
        (ftyp(b"isom", b"mp42"), "mp4"),
        (ftyp(b"isom", b"heic"), "heic"),
        (ftyp(b"mif1", b"heic", b"avif"), "avif"),
        (ftyp(b"isom", *[b"iso2"] * 11, b"heic"), "heic"),
        (ftyp(b"isom", *[b"iso2"] * 12, b"heic"), "mp4"),  # so many are looked at
        (ftyp(b"isom", b"mp42") + b"heic", "mp4"),
        (ftyp(b"isom", b"mp42", version=b"heic"), "mp4"),
    ],
)
def test_an_iso_media_file_is_told_by_its_brands(data, name):
    assert read_header(data) == ImageHeader(name, 0, 0, "")


def ispe(*sides: int) -> bytes:
    return b"ispe" + bytes(4) + struct.pack(">II", *sides)


@pytest.mark.parametrize(
    ("boxes", "sides"),
    [
        ([ispe(640, 480)], (640, 480)),
        ([ispe(512, 512), ispe(4000, 3000), ispe(320, 240)], (4000, 3000)),
        ([ispe(64, 48), ispe(48, 64)], (64, 48)),
        ([ispe(64, 48), ispe(640, 480)[:-1]], (64, 48)),
        ([ispe(640, 480)[:-1]], (0, 0)),
        ([b"ispe", ispe(64, 48)], (64, 48)),
        ([bytes((1 << 16) - 4 - 16), ispe(64, 48)], (64, 48)),
        ([bytes((1 << 16) - 3 - 16), ispe(64, 48)], (0, 0)),  # too far inside
        ([ispe(64, 48), bytes((1 << 16) - 3 - 32), ispe(640, 480)], (64, 48)),
    ],
)
def test_the_size_of_a_heif_image_is_its_largest(boxes, sides):
    """Thumbnails and tiles have sizes of their own."""
    assert read_header(ftyp(b"heic") + b"".join(boxes))[:3] == ("heic", *sides)
    assert read_header(ftyp(b"avif") + b"".join(boxes))[:3] == ("avif", *sides)
    assert read_header(ftyp(b"isom") + b"".join(boxes))[:3] == ("mp4", 0, 0)


@pytest.mark.parametrize("boxed", [False, True])
@pytest.mark.parametrize("profile", [0, 9_000])
def test_a_jpeg_2000_is_read_up_to_its_codestream(boxed, profile):
    data = encoded(photo(64, 48), "JPEG2000", no_jp2=not boxed)
    if boxed and profile:  # another box of the header, longer than what is read at first
        box = struct.pack(">I", 8 + profile) + b"junk" + bytes(profile)
        place = data.index(b"jp2h") - 4
        (length,) = struct.unpack(">I", data[place : place + 4])
        end = place + length
        data = (
            data[:place]
            + struct.pack(">I", length + len(box))
            + data[place + 4 : end]
            + box
            + data[end:]
        )
    assert read(data) == ImageHeader("jp2", 64, 48, "RGB")


@pytest.mark.parametrize("turned", [None, 3, 6])
@pytest.mark.parametrize("mode", ["L", "I;16", "RGB", "RGBA"])
# Libtiff writes the directory at the end.
@pytest.mark.parametrize("compression", [None, "tiff_lzw"])
def test_a_tiff_is_what_pillow_reads_of_it(mode, compression, turned):
    options = {"compression": compression} if compression else {}
    data = encoded(
        noise(90, 70, "I").convert("I;16") if mode == "I;16" else noise(90, 70, mode),
        "TIFF",
        **options,
    )
    if turned:
        data = encoded(Image.open(BytesIO(data)), "TIFF", exif=exif(turned), **options)
    size = (70, 90) if turned == 6 else (90, 70)
    bits = 16 if mode == "I;16" else 8
    assert read(data) == ImageHeader("tiff", *size, mode, bits, turned or 1, alpha=mode == "RGBA")


def test_a_tiff_with_its_directory_far_away_is_not_read_up_to_there():
    data = encoded(noise(300, 200), "TIFF", compression="tiff_deflate")
    header = read_header(data[:4096])
    assert header[:4] == ("tiff", 0, 0, "")
    assert header.needs == 1
    assert 100_000 < header.length < len(data)  # a shorter file is cut: it has no directory


@pytest.mark.parametrize("kind", ["TIFF", "JPEG2000", "BMP"])
def test_what_pillow_reads_of_the_first_bytes_does_not_grow_with_what_they_claim(kind):
    rng = random.Random(5)
    whole = encoded(noise(40, 30), kind)
    for _ in range(300):
        data = bytearray(whole[:4096])
        for _ in range(rng.randint(1, 4)):
            place = rng.randrange(12, min(len(data), 200))
            data[place : place + 4] = b"\xff" * 4
        tracemalloc.start()
        header = read_header(bytes(data))
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert header is not None
        assert header.needs <= MAX_HEADER
        assert most < 1 << 20


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xd8",
        b"<html></html>",
        b'{"error": 404}',
        b" " * 100,
        b"hello there",
        bytes(5000),
    ],
)
def test_bytes_that_are_no_image_have_no_header(data):
    assert read_header(data) is None


def test_a_header_behind_a_large_profile_asks_for_more_in_few_steps():
    data = encoded(noise(8, 8, "CMYK"), "JPEG", icc_profile=b"i" * 560_000, exif=exif(6, 40_000))
    asked, given = [], 4096
    while (header := read_header(data[:given])).needs:
        asked.append(given := header.needs)
    assert len(asked) <= 4
    assert given <= MAX_HEADER
    assert (header.width, header.mode, header.icc, header.orientation) == (8, "CMYK", True, 6)


def test_a_header_that_lies_too_far_inside_is_given_up():
    comment = b"\xff\xfe\xff\xff" + bytes(65533)
    header = read_header((b"\xff\xd8" + comment * 20)[:MAX_HEADER])
    assert header.needs == 1
    assert header.width == 0


@pytest.mark.parametrize(
    "name", ["jpeg-RGB-plain-(96, 72)", "png-RGB", "gif-RGB", "webp-RGB", "bmp-RGB"]
)
def test_a_file_cut_in_its_header_is_known_to_be_longer(name):
    data = usual_images()[name]
    for size in range(16, len(data)):
        header = read_header(data[:size])
        if header is not None and header.needs:
            assert header.length > size, size
        else:
            break
    assert header is not None
    assert header.width


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA"])
@pytest.mark.parametrize("width", [1, 5, 8, 17])
def test_a_bmp_is_cut_where_pillow_lacks_bytes_of_its_last_row(mode, width):
    data = encoded(noise(width, 3, mode), "BMP")
    decoded = 0
    for size in range(len(data), len(data) - 12, -1):
        try:
            with Image.open(BytesIO(data[:size])) as image:
                image.load()
            whole = True
        except OSError:
            whole = False
        decoded += whole
        assert (read_header(data).length <= size) is whole, size
    assert 1 <= decoded <= 4


def bmp_with_masks(bits, masks, size):
    """Return a 3 x 2 bitmap with masks for the red, green, blue and alpha bits.

    The alpha mask is written only if the header is large enough for it.
    """
    behind = b"".join(struct.pack("<I", mask) for mask in masks[: 4 if size >= 56 else 3])
    info = struct.pack("<IiiHHIIiiII", size, 3, 2, 1, bits, 3, 0, 0, 0, 0, 0) + behind
    info += bytes(max(0, 14 + size - 14 - len(info)))
    pixels = bytes(range(1, 1 + (3 * bits + 31) // 32 * 4 * 2))
    return (
        struct.pack("<2sIII", b"BM", 14 + len(info) + len(pixels), 0, 14 + len(info))
        + info
        + pixels
    )


@pytest.mark.parametrize("size", [40, 56, 124])
@pytest.mark.parametrize(
    ("bits", "masks"),
    [
        (32, (0xFF0000, 0xFF00, 0xFF, 0)),
        (32, (0xFF0000, 0xFF00, 0xFF, 0xFF000000)),
        (32, (0xFF, 0xFF00, 0xFF0000, 0xFF000000)),
        (32, (0xFF000000, 0xFF0000, 0xFF00, 0xFF)),
        (32, (0xF00, 0xFF00, 0xFF, 0)),
        (24, (0xFF0000, 0xFF00, 0xFF, 0)),
        (24, (0xFF, 0xFF00, 0xFF0000, 0)),
        (16, (0xF800, 0x7E0, 0x1F, 0)),
        (16, (0x7C00, 0x3E0, 0x1F, 0)),
        (16, (0xF000, 0xF00, 0xF0, 0)),
    ],
)
def test_a_bmp_with_masks_has_the_mode_that_pillow_gives_it(bits, masks, size):
    data = bmp_with_masks(bits, masks, size)
    try:
        sides_and_mode = by_pillow(data)[1:4]
    except OSError:
        sides_and_mode = (0, 0, "")
    header = read_header(data)
    assert header[1:4] == sides_and_mode
    assert header.alpha is (header.mode == "RGBA")


def test_a_compressed_bmp_may_have_any_length():
    pixels = bytes((4, 7, 0, 1))
    info = struct.pack("<IiiHHIIiiII", 40, 4, 1, 1, 8, 1, len(pixels), 0, 0, 256, 0)
    start = 14 + len(info) + 1024
    data = struct.pack("<2sIII", b"BM", start + len(pixels), 0, start) + info + bytes(1024) + pixels
    assert not differs(data)
    assert read_header(data).length == 0
    plain = encoded(noise(4, 1, "P"), "BMP")
    assert read_header(plain).length == len(plain)


def test_a_png_may_have_other_chunks_before_its_header():
    data = encoded(photo(), "PNG")
    gamma = b"gAMA" + (45455).to_bytes(4, "big")
    chunk = (4).to_bytes(4, "big") + gamma + zlib.crc32(gamma).to_bytes(4, "big")
    for count in (1, 3):
        early = data[:8] + count * chunk + data[8:]
        assert not differs(early)
        assert read_header(early)[:4] == ("png", 96, 72, "RGB")


@pytest.mark.parametrize("order", ["little", "big"])
def test_an_orientation_may_be_an_integer_of_any_width(order):
    marks = {"little": b"II*\0", "big": b"MM\0*"}

    def block(kind, value):
        numbers = ((8, 4), (1, 2), (274, 2), (kind, 2), (1, 4))
        entry = b"".join(number.to_bytes(size, order) for number, size in numbers)
        return marks[order] + entry + value + bytes(4)

    for kind, size in ((1, 1), (3, 2), (4, 4)):
        assert exif_orientation(block(kind, (6).to_bytes(size, order).ljust(4, b"\0"))) == 6
    assert exif_orientation(block(2, b"6\0\0\0")) is None
    jpeg = encoded(photo(), "JPEG", exif=b"Exif\0\0" + block(4, (6).to_bytes(4, order)))
    assert read_header(jpeg).orientation == 6
    assert not differs(jpeg)


def test_chunks_of_a_webp_are_only_looked_for_where_its_header_announces_them():
    plain = encoded(photo(), "WEBP")
    tagged = encoded(photo(), "WEBP", exif=exif(6))
    at = tagged.index(b"EXIF")

    def found(data):
        return list(webp_metadata(lambda start, size: data[start : start + size], len(data)))

    assert found(tagged) == [(b"EXIF", at + 8, int.from_bytes(tagged[at + 4 : at + 8], "little"))]
    assert found(plain) == []
    silent = bytearray(tagged)
    silent[20] &= ~0x0C
    assert found(bytes(silent)) == []


def test_the_smallest_webp_is_one():
    data = bytes.fromhex("5249464612000000574542505650384c060000002f416c6f006b")
    assert read_header(data)[:4] == by_pillow(data)[:4]


def test_a_webp_may_be_16_million_pixels_wide():
    frame = encoded(photo(), "WEBP")[12:]
    width, height = (1 << 24) - 2, 70_000
    size = bytes(4) + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    chunks = b"WEBPVP8X" + len(size).to_bytes(4, "little") + size + frame
    header = read_header(b"RIFF" + len(chunks).to_bytes(4, "little") + chunks)
    assert (header.format, header.width, header.height) == ("webp", width, height)


def test_what_pillow_refuses_by_the_header_has_no_mode():
    png = bytearray(encoded(photo(), "PNG"))
    png[20] ^= 1
    assert read_header(bytes(png)).mode == ""  # wrong checksum
    fields = struct.pack(">IIBBBBB", 5, 5, 3, 2, 0, 0, 0)
    odd = (
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + fields + zlib.crc32(b"IHDR" + fields).to_bytes(4, "big")
    )
    assert read_header(odd).mode == ""  # three bits a channel
    jpeg = bytearray(encoded(photo(), "JPEG"))
    frame = jpeg.index(b"\xff\xc0")
    jpeg[frame + 4] = 12
    assert read_header(bytes(jpeg)).mode == ""  # twelve bits a sample
    jpeg[frame + 4 : frame + 7] = b"\x08\0\0"
    assert read_header(bytes(jpeg)).mode == ""  # no height
