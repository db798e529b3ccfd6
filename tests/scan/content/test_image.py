import io
import tarfile

import pytest

from tests.pictures import encoded, exif, noise, other_images, photo, usual_images
from wdsflow.images.header import ImageHeader
from wdsflow.images.image_header import read_header
from wdsflow.scan.content.image_end import ends_early
from wdsflow.scan.content.image_header_notes import header_status, image_notes
from wdsflow.scan.evidence import ScanOptions
from wdsflow.scan.scan import scan_shard
from wdsflow.scan.tallies import TALLIES
from wdsflow.shards.source.base import single_shard


def notes(data, suffix, size=None):
    return image_notes(read_header(data), suffix, data[:4096], len(data) if size is None else size)


def sized(width, height):
    return ImageHeader("jpeg", width, height, "RGB")


def test_an_ordinary_picture_has_no_notes():
    assert notes(encoded(photo(), "JPEG"), "jpg") == ()
    assert notes(encoded(photo(), "PNG"), "seg.png") == ()


def test_all_notes_have_a_tally():
    samples = [*usual_images().values(), *other_images().values(), b"", b"<html>", b"nothing"]
    found = {note for data in samples for note in notes(data, "png")}
    assert len(found) > 8
    assert found <= TALLIES.keys()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "image.empty"),
        (b"<!DOCTYPE html><html><body>404</body></html>", "image.html"),
        (b'\xef\xbb\xbf {"error": "gone"}', "image.html"),
        (bytes(100), "image.not-image"),
        (b"\x93NUMPY\x01\0", "image.not-image"),
    ],
)
def test_bytes_that_are_no_image_are_told_apart(data, expected):
    assert notes(data, "jpg") == (expected,)
    assert header_status(read_header(data), len(data), 0) == "bad"


@pytest.mark.parametrize(
    ("data", "suffix", "expected"),
    [
        (encoded(photo(), "PNG"), "jpg", "image.wrong-extension"),
        (encoded(photo(), "JPEG"), "thumb.png", "image.wrong-extension"),
        (encoded(noise(50, 50, "CMYK"), "JPEG"), "jpg", "image.cmyk"),
        (encoded(noise(50, 50, "I").convert("I;16"), "PNG"), "png", "image.high-depth"),
        (encoded(noise(50, 50, "F"), "TIFF"), "tif", "image.high-depth"),
        (encoded(noise(50, 50, "RGBA"), "PNG"), "png", "image.alpha"),
        (encoded(noise(50, 50, "P"), "PNG", transparency=0), "png", "image.alpha"),
        (encoded(photo(), "JPEG", exif=exif(6)), "jpg", "image.rotated"),
        (
            encoded(photo(), "WEBP", save_all=True, append_images=[noise(96, 72)]),
            "webp",
            "image.animated",
        ),
        (encoded(photo(20, 60), "JPEG"), "jpg", "image.tiny"),
        (encoded(photo(36, 400), "JPEG"), "jpg", "image.extreme-aspect"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "svg", "image.undecodable"),
    ],
)
def test_traits_become_notes(data, suffix, expected):
    assert notes(data, suffix) == (expected,)


@pytest.mark.parametrize("suffix", ["jpg", "jpeg", "JPG", "jpe", "thumb.jpg", "x", "image"])
def test_a_jpeg_may_have_any_of_its_names_or_none_of_an_image(suffix):
    assert notes(encoded(photo(), "JPEG"), suffix) == ()


@pytest.mark.parametrize(
    ("width", "height", "status", "expected"),
    [
        (5000, 5000, "ok", ()),
        (5001, 5000, "big", ("image.large",)),
        (9460, 9459, "big", ("image.large", "image.bomb-warning")),
        (13377, 13377, "big", ("image.large", "image.bomb-warning")),
        (13379, 13378, "bomb", ("image.large", "image.bomb")),
        (32, 320, "ok", ()),
        (31, 310, "ok", ("image.tiny",)),
        (32, 321, "ok", ("image.extreme-aspect",)),
        (4000, 399, "ok", ("image.extreme-aspect",)),
    ],
)
def test_the_limits_are_those_of_pillow_and_open_clip(width, height, status, expected):
    assert image_notes(sized(width, height), "jpg", b"", 10_000) == expected
    assert header_status(sized(width, height), 10_000, 25_000_000) == status


def test_there_is_no_limit_of_pixels_where_none_is_set():
    assert header_status(sized(13000, 13000), 10_000, 0) == "ok"


def test_an_image_of_unknown_size_is_not_judged_by_its_size():
    assert image_notes(ImageHeader("avif", 0, 0, ""), "avif", b"", 10_000) == ()
    assert header_status(ImageHeader("avif", 0, 0, ""), 10_000, 25_000_000) == "ok"


@pytest.mark.parametrize("kind", ["WEBP", "BMP"])
def test_a_container_that_is_shorter_than_it_says_is_cut_and_bad(kind):
    data = encoded(photo(), kind)
    header = read_header(data)
    assert header_status(header, len(data), 0) == "ok"
    assert header_status(header, len(data) - 100, 0) == "bad"
    assert "image.cut" in image_notes(header, kind.lower(), data, len(data) - 100)


def test_a_header_that_was_not_read_to_its_end_is_judged_only_if_the_file_ends():
    data = encoded(photo(), "JPEG", exif=exif(6, 30_000))
    header = read_header(data[:4096])
    assert header.needs
    assert (
        header_status(header, len(data), 0),
        image_notes(header, "jpg", data[:4096], len(data)),
    ) == ("ok", ())
    assert (header_status(header, 4096, 0), image_notes(header, "jpg", data[:4096], 4096)) == (
        "bad",
        ("image.cut",),
    )


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_a_missing_end_mark_is_seen_in_the_last_bytes(kind):
    data = encoded(photo(), kind)
    header = read_header(data)
    assert not ends_early(data[-32:], header)
    assert ends_early(data[: len(data) // 2][-32:], header)
    assert ends_early(data[:-9][-32:], header)


@pytest.mark.parametrize(
    "trailer", [b"\0" * 40, b"\r\n", b"<!-- served in 0.1 s by cache number 17 -->", b"xyzSEFT"]
)
def test_what_is_often_appended_is_no_sign_of_a_cut(trailer):
    data = encoded(photo(), "JPEG") + trailer
    assert not ends_early(data[-32:], read_header(data))


APPENDED = [
    bytes(range(128, 256)) * 2,
    b"\x00\x00\x00\x18ftypmp42" + b"\x9a" * 900,
    b"\x89PNG\r\n\x1a\n\xff" * 9,
]


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
@pytest.mark.parametrize("appended", APPENDED, ids=["bytes", "a phone's film", "another header"])
def test_a_whole_image_with_bytes_after_its_end_is_not_cut_and_a_cut_one_with_them_is(
    tmp_path, kind, appended
):
    data = encoded(photo(), kind, **({"exif": exif(6, 300)} if kind == "JPEG" else {}))
    # Has an end mark of its own, before the picture's first scan.
    preview = encoded(photo(), "JPEG")
    if kind == "JPEG":
        data = data[:2] + b"\xff\xe5" + (len(preview) + 2).to_bytes(2, "big") + preview + data[2:]
    assert ends_early((data + appended)[-32:], read_header(data))
    suffix = kind.lower().replace("jpeg", "jpg")
    for content, cut in ((data + appended, 0), (data[: len(data) - 200] + appended, 1)):
        with tarfile.open(tmp_path / "0.tar", "w") as tar:
            info = tarfile.TarInfo(f"0.{suffix}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
        assert (
            scan_shard(single_shard(str(tmp_path / "0.tar")), ScanOptions("headers"))
            .tally("image.cut")
            .count
            == cut
        )


def test_other_formats_have_no_end_mark():
    data = encoded(photo(), "TIFF")
    assert not ends_early(data[: len(data) // 2][-32:], read_header(data))
