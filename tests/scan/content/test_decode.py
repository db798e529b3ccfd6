"""The verdict on a decoded image is Pillow's.

Damage that Pillow overlooks is found in addition.
"""

import random
import sys
import warnings
from functools import partial
from io import BytesIO

import pytest
from PIL import Image, ImageFile

from tests.pictures import (
    JPEG_OPTIONS,
    encoded,
    exif,
    hurt,
    noise,
    other_images,
    photo,
    scan_data,
    usual_images,
)
from wdsflow.images import jpeg
from wdsflow.scan.content import jpeg_damage
from wdsflow.scan.content.image_content import decode_image
from wdsflow.scan.tallies import TALLIES


@pytest.fixture
def without_simplejpeg(monkeypatch):
    monkeypatch.setitem(sys.modules, "simplejpeg", None)
    jpeg.load_simplejpeg.cache_clear()
    yield
    jpeg.load_simplejpeg.cache_clear()


def by_pillow(data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with Image.open(BytesIO(data)) as image:
                image.load()
                image.convert("RGB")
        except Image.DecompressionBombError:
            return "bomb"
        except Exception:
            return "bad"
    return "ok"


def disagreements(sources, trials, seed):
    rng = random.Random(seed)
    found = []
    for _ in range(trials):
        name = rng.choice(list(sources))
        data = hurt(sources[name], rng)
        status, notes = decode_image(data, 0)
        assert TALLIES.keys() >= set(notes)
        if status != by_pillow(data):
            found.append((name, status, notes))
    return found


def test_sound_images_of_all_kinds_decode_without_a_note():
    images = {**usual_images(), **other_images()}
    images.pop("eps", None)
    wrong = {name: decode_image(data, 0) for name, data in images.items()}
    wrong = {
        name: found
        for name, found in wrong.items()
        if found[0] != "ok" or set(found[1]) - {"image.uniform"}
    }
    assert wrong == {}


@pytest.mark.parametrize("trials", [600, pytest.param(2500, marks=pytest.mark.deep)])
def test_the_verdict_on_damaged_jpegs_is_that_of_pillow(trials):
    jpegs = {name: data for name, data in usual_images().items() if name.startswith("jpeg")}
    assert disagreements(jpegs, trials, 1) == []


@pytest.mark.deep
def test_the_verdict_on_other_damaged_images_is_that_of_pillow():
    others = {name: data for name, data in usual_images().items() if not name.startswith("jpeg")}
    assert (
        disagreements(
            {**others, **{k: v for k, v in other_images().items() if k != "eps"}}, 1500, 2
        )
        == []
    )


@pytest.mark.usefixtures("without_simplejpeg")
def test_without_simplejpeg_the_verdict_is_the_same():
    jpegs = {name: data for name, data in usual_images().items() if name.startswith("jpeg-RGB")}
    assert disagreements(jpegs, 300, 3) == []


@pytest.mark.sample(5)
@pytest.mark.parametrize("options", ["plain", "progressive", "444", "optimized", "restarts"])
@pytest.mark.parametrize("quality", [60, 75, 90])
def test_most_damage_in_jpeg_data_is_found(options, quality):
    rng = random.Random(quality)
    found = trials = 0
    for seed in range(6):
        data = encoded(
            photo(256, 192, seed), "JPEG", **{**JPEG_OPTIONS[options], "quality": quality}
        )
        assert decode_image(data, 0) == ("ok", ())
        start = scan_data(data)
        for _ in range(20):
            broken = bytearray(data)
            for _ in range(8):
                broken[rng.randrange(start, len(data) - 2)] = rng.randrange(256)
            status, notes = decode_image(bytes(broken), 0)
            found += status == "bad" or "image.damaged" in notes
            trials += 1
    assert found >= 0.7 * trials


def test_an_impossible_brightness_is_found_where_the_number_of_blocks_is_right():
    picture = photo(256, 256)
    picture.paste("white", (0, 150, 256, 190))
    picture.paste("black", (0, 200, 256, 240))
    data = encoded(picture, "JPEG", quality=85)
    start = scan_data(data)
    rng = random.Random(7)
    by_mean = 0
    for _ in range(300):
        broken = bytearray(data)
        place = rng.randrange(start, len(data) - 10)
        broken[place : place + 4] = rng.randbytes(4)
        warning, impossible, _ = strict_decode(bytes(broken))
        by_mean += not warning and impossible
    assert by_mean > 10


def strict_decode(data):
    from wdsflow.scan.content.jpeg_tables import read_tables

    decode = partial(jpeg.load_simplejpeg() or bytes, colorspace="GRAY", min_height=1, min_width=1)
    return jpeg_damage.decode_jpeg_strictly(decode, data, read_tables(data))


def test_no_sound_jpeg_has_an_impossible_brightness():
    blocks = noise(16, 16, "1").resize((128, 128), Image.Resampling.NEAREST).convert("RGB")
    for quality in range(1, 101):
        for options in ({}, {"progressive": True}, {"subsampling": 0}, {"keep_rgb": True}):
            for picture in (blocks, blocks.convert("L")):
                if picture.mode == "RGB" or "progressive" in options or not options:
                    data = encoded(picture, "JPEG", quality=quality, **options)
                    assert strict_decode(data)[:2] == ("", False), (quality, options)


def test_damage_in_a_png_that_pillow_does_not_check_is_found():
    data = encoded(photo(), "PNG")
    place = data.index(b"IDAT") - 4
    length = int.from_bytes(data[place : place + 4], "big")
    broken = bytearray(data)
    broken[place + 8 + length] ^= 1  # the checksum itself
    assert by_pillow(bytes(broken)) == "ok"
    assert decode_image(bytes(broken), 0) == ("ok", ("image.damaged",))


def test_cut_images_are_called_cut():
    for kind in ("JPEG", "PNG"):
        data = encoded(photo(), kind)
        assert decode_image(data[: len(data) // 2], 0) == (
            "bad",
            ("image.undecodable", "image.cut"),
        )
    png = encoded(photo(), "PNG")
    assert decode_image(png[:-12], 0) == ("ok", ("image.damaged", "image.cut"))


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "WEBP", "BMP"])
def test_one_colour_is_seen_and_nearly_one_colour_is_not(kind):
    options = {"lossless": True} if kind == "WEBP" else {}
    picture = Image.new("RGB", (64, 48), (200, 30, 30))
    assert decode_image(encoded(picture, kind, **options), 0) == ("ok", ("image.uniform",))
    picture.paste((30, 30, 200), (5, 5, 30, 20))
    assert decode_image(encoded(picture, kind, **options), 0) == ("ok", ())


def test_transparency_does_not_hide_that_there_is_one_colour():
    picture = Image.new("RGBA", (64, 48), (9, 9, 9, 255))
    picture.putpixel((3, 3), (9, 9, 9, 0))
    assert decode_image(encoded(picture, "PNG"), 0) == ("ok", ("image.uniform",))


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_images_over_the_limit_of_pixels_are_decoded_all_the_same(kind):
    data = encoded(photo(), kind)
    assert decode_image(data, 96 * 72) == ("ok", ())
    assert decode_image(data, 96 * 72 - 1) == ("big", ())
    assert decode_image(data[: len(data) // 2], 100)[0] == "big-bad"


def test_a_bomb_is_refused_by_its_header():
    png = encoded(Image.new("1", (20_000, 10_000)), "PNG")
    assert decode_image(png, 25_000_000) == ("bomb", ())
    jpeg = bytearray(encoded(photo(), "JPEG"))
    frame = jpeg.index(b"\xff\xc0")
    jpeg[frame + 5 : frame + 9] = b"\xff\xff\xff\xff"
    assert decode_image(bytes(jpeg), 0) == ("bomb", ())


def test_a_small_file_with_very_many_scans_is_refused():
    data = encoded(photo(), "JPEG", progressive=True)
    start = data.rindex(b"\xff\xda")
    scan = data[start:-2]
    frame = data.index(b"\xff\xc2")
    size = b"\x2e\xe0\x2e\xe0"  # 12,000 x 12,000
    bomb = data[: frame + 5] + size + data[frame + 9 : start] + scan * 2000 + b"\xff\xd9"
    assert decode_image(bomb, 0) == ("bad", ("image.undecodable",))


def test_postscript_is_never_run_and_formats_without_pixels_are_bad():
    for data in (other_images().get("eps", b"%!PS-Adobe-3.0\n"), b"%PDF-1.7\n", b"<svg></svg>"):
        assert decode_image(data, 0) == ("bad", ("image.undecodable",))


@pytest.mark.parametrize("data", [b"", b"<html>", bytes(100)])
def test_what_is_no_image_is_bad_without_a_second_note(data):
    assert decode_image(data, 0) == ("bad", ())


def test_pillows_switches_are_ignored_and_left_as_they_were(monkeypatch):
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    data = encoded(photo(), "PNG")
    assert decode_image(data, 0) == ("ok", ())
    assert decode_image(data[: len(data) // 2], 0)[0] == "bad"
    assert (ImageFile.LOAD_TRUNCATED_IMAGES, Image.MAX_IMAGE_PIXELS) == (True, 10)


def test_neither_warnings_nor_libtiffs_messages_come_through(capfd):
    palette = encoded(noise(50, 50, "P"), "PNG", transparency=bytes(range(256)))
    tiff = bytearray(encoded(photo(), "TIFF", compression="tiff_lzw"))
    tiff[200:260] = b"\xff" * 60  # of which libtiff complains
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        decode_image(palette, 0)
        decode_image(encoded(photo(), "JPEG", exif=exif(6)[:20]), 0)
        decode_image(bytes(tiff), 0)
    assert capfd.readouterr().err == ""
