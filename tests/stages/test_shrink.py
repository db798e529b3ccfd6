"""Encoded images made smaller: sizes, formats, colours, and what is left alone."""

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageCms, ImageOps

from tests.depth import cases
from tests.pictures import encoded, photo, psnr, smooth
from wdsflow.images.image_header import first_header
from wdsflow.stages import Dropped, Resize, StageError
from wdsflow.stages.imaging.shrink import Shrinker, ShrunkImage
from wdsflow.stages.imaging.size_rule import SizeRule

BUDGET = 1 << 30


def header_of(data):
    return first_header(lambda start, size: data[start : start + size], len(data))[0]


def shrunk(data: bytes, rule: str, **how) -> ShrunkImage | None:
    return Shrinker(SizeRule.parse(rule), **how).shrink(data, header_of(data), BUDGET)


def opened(small: ShrunkImage | None) -> Image.Image:
    assert small is not None
    image = Image.open(io.BytesIO(small.data))
    image.load()
    assert image.size == (small.width, small.height)
    assert image.format == small.format.upper()
    return image


RULES = {
    "512": lambda w, h: max(w, h) <= 512,
    "short:224": lambda w, h: min(w, h) <= 224,
    "pixels:0.25MP": lambda w, h: w * h <= 250_000,
    "square:300": lambda w, h: (w, h) == (300, 300),
    "center-crop:256": lambda w, h: max(w, h) <= 256,
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("rule", RULES)
@cases(60)
@given(st.integers(1, 100_000), st.integers(1, 100_000))
def test_no_size_is_over_the_bound_and_none_grows(rule, width, height):
    size = SizeRule.parse(rule)
    if size.is_small_enough(width, height):
        assert rule == "square:300" or RULES[rule](width, height)
        return
    across, down = size.final(width, height)
    assert RULES[rule](across, down)
    scaled = size.scaled(width, height)
    assert 1 <= scaled[0] <= width
    assert 1 <= scaled[1] <= height
    if min(scaled) > 8:  # the aspect ratio stays, but for rounding
        assert abs(scaled[0] / scaled[1] / (width / height) - 1) < 1 / min(scaled)
        if size.kind == "pixels":
            assert scaled[0] * scaled[1] > 0.8 * size.most


@pytest.mark.sample(3)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("mode", ["fast", "exact"])
def test_the_pixels_are_those_of_pillow_or_nearly(rule, mode):
    picture = smooth(1300, 903)
    data = encoded(picture, "JPEG", quality=97)
    size, image = SizeRule.parse(rule), opened(shrunk(data, rule, mode=mode))
    across, down = size.scaled(1300, 903)
    whole = Image.open(io.BytesIO(data)).resize((across, down), Image.Resampling.LANCZOS)
    if size.kind == "center-crop":
        whole = whole.crop(((across - 256) // 2, 0, (across - 256) // 2 + 256, 256))
    if size.kind == "square":
        left, top = (300 - across) // 2, (300 - down) // 2
        assert np.asarray(image)[: top - 8].min() > 240  # white, but for the edges of blocks
        image = image.crop((left, top, left + across, top + down))
    assert psnr(np.asarray(image), np.asarray(whole)) > (34 if mode == "fast" else 36)


def test_a_small_image_is_left_alone_even_if_it_is_damaged_and_of_another_format():
    data = encoded(photo(512, 300), "PNG")
    assert shrunk(data, "512", image_format="webp") is None
    assert shrunk(data[:-500], "512") is None
    with pytest.raises(StageError, match="truncated"):
        shrunk(data[:-500], "256")


TURNED = Image.Exif()
TURNED[0x112] = 6


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_the_orientation_is_applied_or_kept(kind):
    picture = smooth(900, 300)
    data = encoded(picture, kind, exif=TURNED)
    upright = opened(shrunk(data, "300"))
    assert upright.size == (100, 300)
    assert not upright.getexif()
    kept = opened(shrunk(data, "300", orientation="keep"))
    assert kept.size == (300, 100)
    assert dict(kept.getexif()) == {0x112: 6}
    assert psnr(np.asarray(ImageOps.exif_transpose(kept)), np.asarray(upright)) > 34


def test_formats_modes_and_animations_become_what_the_docs_say():
    picture = smooth(600, 400)
    clear = picture.convert("RGBA")
    clear.putalpha(Image.linear_gradient("L").resize((600, 400)))
    deep = Image.fromarray(np.asarray(picture.convert("L")).astype(np.uint16) * 257)
    moving = encoded(
        picture, "GIF", save_all=True, append_images=[picture.rotate(90), picture.rotate(45)]
    )
    found = {
        "png": (encoded(picture, "PNG"), "PNG", "RGB"),
        "webp": (encoded(picture, "WEBP"), "WEBP", "RGB"),
        "grey": (encoded(picture.convert("L"), "JPEG"), "JPEG", "L"),
        "cmyk": (encoded(picture.convert("CMYK"), "JPEG"), "JPEG", "RGB"),
        "alpha": (encoded(clear, "PNG"), "PNG", "RGBA"),
        "palette": (encoded(picture.convert("P"), "PNG"), "PNG", "RGB"),
        "deep": (encoded(deep, "PNG"), "PNG", "L"),
        "gif": (moving, "PNG", "RGB"),
        "bmp": (encoded(picture, "BMP"), "PNG", "RGB"),
        "avif": (encoded(picture, "AVIF"), "JPEG", "RGB"),
    }
    for name, (data, kind, mode) in found.items():
        image = opened(shrunk(data, "200"))
        assert (image.format, image.mode, getattr(image, "n_frames", 1)) == (kind, mode, 1), name
        expected = picture.resize((200, 133), Image.Resampling.LANCZOS).convert(mode)
        if mode != "RGBA":
            least = 20 if name == "cmyk" else 24 if name in {"palette", "gif"} else 32
            assert psnr(np.asarray(image), np.asarray(expected)) > least, name


def test_transparency_stays_and_is_white_in_a_jpeg():
    half = Image.new("RGBA", (400, 400), (255, 0, 0, 0))
    half.paste((0, 0, 255, 255), (0, 0, 200, 400))
    data = encoded(half, "PNG")
    image = opened(shrunk(data, "100"))
    assert image.getpixel((10, 50)) == (0, 0, 255, 255)
    assert image.getpixel((90, 50))[3] == 0
    flat = np.asarray(opened(shrunk(data, "100", image_format="jpg")))
    assert flat[:, :40].mean((0, 1)) == pytest.approx((0, 0, 255), abs=4)
    assert flat[:, 60:].min() > 250


def test_a_profile_is_converted_to_srgb_and_left_out(tmp_path):
    linear = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB"))
    swapped = bytearray(linear.tobytes())
    red, green = swapped.index(b"rXYZ"), swapped.index(b"gXYZ")
    swapped[red : red + 4], swapped[green : green + 4] = b"gXYZ", b"rXYZ"
    place = swapped.index(b"desc", 128)
    del place
    named = bytes(swapped).replace("sRGB".encode("utf-16-be"), "test".encode("utf-16-be"))
    data = encoded(Image.new("RGB", (400, 300), (200, 30, 30)), "PNG", icc_profile=named)
    image = opened(shrunk(data, "100"))
    assert "icc_profile" not in image.info
    assert image.getpixel((50, 40))[1] > 150  # its red is the green of sRGB
    plain = encoded(
        Image.new("RGB", (400, 300), (200, 30, 30)), "PNG", icc_profile=linear.tobytes()
    )
    assert opened(shrunk(plain, "100")).getpixel((50, 40)) == pytest.approx((200, 30, 30), abs=2)
    broken = encoded(Image.new("RGB", (400, 300), (200, 30, 30)), "PNG", icc_profile=named[:300])
    assert opened(shrunk(broken, "100")).getpixel((50, 40)) == (200, 30, 30)


def test_what_is_known_only_from_the_pixels_or_not_at_all():
    linear = ImageCms.createProfile("sRGB")
    swapped = (
        ImageCms.ImageCmsProfile(linear)
        .tobytes()
        .replace(b"rXYZ", b"tXYZ")
        .replace(b"gXYZ", b"rXYZ")
        .replace(b"tXYZ", b"gXYZ")
    )
    for kind in ("TIFF", "AVIF"):  # their headers do not say that they have a profile
        image = opened(
            shrunk(
                encoded(Image.new("RGB", (400, 300), (200, 30, 30)), kind, icc_profile=swapped),
                "100",
            )
        )
        assert image.getpixel((50, 40))[1] > 150, kind
    turned = encoded(smooth(300, 100), "TIFF", exif=TURNED)  # Pillow turns it by itself
    for orientation in ("apply", "keep"):
        image = opened(shrunk(turned, "90", orientation=orientation))
        assert image.size == (30, 90)
        assert not image.getexif()
    icon = encoded(photo(64, 64), "ICO", sizes=[(64, 64)])
    assert shrunk(icon, "64") is None
    assert opened(shrunk(icon, "32")).format == "PNG"
    with pytest.raises(StageError, match="its size is unknown"):
        shrunk(b"<svg xmlns='http://www.w3.org/2000/svg'></svg>", "32")
    deep = Image.fromarray((np.arange(60_000, dtype=np.uint16) * 1).reshape(200, 300))
    clear = opened(shrunk(encoded(deep, "PNG", transparency=5), "100"))
    assert np.asarray(clear.convert("L")).mean() == pytest.approx(
        np.asarray(deep).mean() / 257, abs=2
    )


def test_numbers_of_megapixels_are_exact():
    assert [SizeRule.parse(f"pixels:{text}MP").most for text in ("4.1", "8.2", "0.3")] == [
        4_100_000,
        8_200_000,
        300_000,
    ]


@pytest.mark.deep
def test_memory_is_bounded_by_the_header_and_by_the_result():
    data = encoded(photo(2000, 1500), "PNG")
    with pytest.raises(Dropped, match="over-budget"):
        Shrinker(SizeRule.parse("512")).shrink(data, header_of(data), 4 << 20)
    long = encoded(Image.new("L", (30_000, 2)), "PNG")
    with pytest.raises(Dropped, match="over-budget"):
        Shrinker(SizeRule.parse("square:20000")).shrink(long, header_of(long), BUDGET)
    assert opened(shrunk(long, "100")).size == (100, 1)


@pytest.mark.parametrize(
    ("rule", "small", "large", "scaled", "final"),
    [
        ("100", (100, 100), (101, 50), (100, 50), (100, 50)),
        ("short:100", (100, 900), (202, 101), (200, 100), (200, 100)),
        ("pixels:100", (10, 10), (101, 1), (100, 1), (100, 1)),
        ("pixels:100", (100, 1), (40, 10), (20, 5), (20, 5)),
        ("pixels:100", (1, 100), (1, 1000), (1, 100), (1, 100)),
        ("square:100", (100, 100), (300, 150), (100, 50), (100, 100)),
        ("center-crop:100", (100, 100), (300, 150), (200, 100), (100, 100)),
        ("center-crop:100", (100, 100), (300, 50), (300, 50), (100, 50)),
    ],
)
def test_sizes_are_those_of_the_rule(rule, small, large, scaled, final):
    size = SizeRule.parse(rule)
    assert size.is_small_enough(*small)
    assert not size.is_small_enough(*large)
    assert (size.scaled(*large), size.final(*large)) == (scaled, final)
    assert (size.scaled(*small), size.scaled(3, 2)) == (small, (3, 2))


@pytest.mark.parametrize(
    ("rule", "size"),
    [
        ("60", (60, 30)),
        ("short:60", (120, 60)),
        ("pixels:1800", (60, 30)),
        ("square:60", (60, 60)),
        ("center-crop:60", (60, 60)),
    ],
)
def test_the_whole_picture_is_made_smaller_but_for_what_a_rule_cuts(rule, size):
    # From left to right it gets lighter.
    ramp = Image.linear_gradient("L").rotate(90).resize((300, 150)).convert("RGB")
    image = opened(shrunk(encoded(ramp, "PNG"), rule))
    assert image.size == size
    middle = [image.getpixel((x, size[1] // 2))[0] for x in (0, size[0] - 1)]
    ends = (64, 191) if rule == "center-crop:60" else (0, 255)
    assert middle == pytest.approx(ends, abs=6)


@pytest.mark.parametrize(
    ("mode", "rule", "fits"),
    [("RGB", "50", True), ("RGB", "199", False), ("L", "50", False), ("L", "200", True)],
)
def test_an_image_needs_memory_for_its_pixels_its_copies_and_its_result(mode, rule, fits):
    data = encoded(smooth(200, 100).convert(mode), "PNG")

    def shrink(budget):
        return Shrinker(SizeRule.parse(rule)).shrink(data, header_of(data), budget)

    # Enough for the pixels and a small result, but not for a large one, nor for a copy in grey.
    budget = 1_450_000
    if fits:
        shrink(budget)
    else:
        with pytest.raises(Dropped, match="over-budget"):
            shrink(budget)
        assert shrink(2 * budget)
    if rule != "200":
        with pytest.raises(Dropped, match="over-budget"):
            shrink(12 * 50 * 25 - 1)


def test_what_the_new_format_cannot_hold_has_a_name():
    long = encoded(Image.new("L", (20_000, 2)), "PNG")
    with pytest.raises(StageError, match="webp: ") as caught:
        shrunk(long, "17000", image_format="webp")
    assert caught.value.slug == "unencodable"


def test_a_damaged_image_without_a_size_in_its_header_has_a_name():
    icon = encoded(photo(64, 64), "ICO", sizes=[(64, 64)])
    with pytest.raises(StageError, match="ico: ") as caught:
        shrunk(icon[:100], "32")
    assert caught.value.slug == "undecodable"


def test_profiles_of_other_colours_are_left_alone_and_transparency_stays():
    plain = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    swapped = plain.replace(b"rXYZ", b"x").replace(b"gXYZ", b"rXYZ").replace(b"x", b"gXYZ")
    grey_profile = plain[:16] + b"GRAY" + plain[20:]

    def pixel(image, profile):
        data = encoded(image, "PNG", icc_profile=profile)
        return opened(shrunk(data, "50")).getpixel((5, 5))

    red = (200, 30, 30)
    assert pixel(Image.new("RGB", (200, 100), red), grey_profile) == red
    assert pixel(Image.new("L", (200, 100), 77), swapped) == 77
    *colour, alpha = pixel(Image.new("RGBA", (200, 100), (*red, 128)), swapped)
    assert (colour[1] > 150, alpha) == (True, 128)


@pytest.mark.parametrize("exif", [b"garbage", b"Exif\0\0MM\0*\0\0\0\x08\xff\xff"])
def test_a_damaged_exif_is_no_orientation(exif):
    data = encoded(smooth(200, 100), "PNG", exif=exif)
    kept = opened(shrunk(data, "50", orientation="keep"))
    assert (kept.size, dict(kept.getexif())) == ((50, 25), {})


def test_a_picture_that_scores_have_decoded_gives_the_same_bytes():
    from wdsflow.stages.scores import View

    shrinker = Shrinker(SizeRule.parse("200"))
    for mode in ("RGB", "L", "CMYK"):
        data = encoded(smooth(1300, 903).convert(mode), "JPEG")
        alone, after = View({"jpg": data}), View({"jpg": data})
        after.pictures()
        assert shrinker.can_use_picture(after.header("jpg"))
        assert alone.shrunk("jpg", shrinker) == after.shrunk("jpg", shrinker)
    turned = View({"jpg": encoded(smooth(1300, 903), "JPEG", exif=TURNED)})
    turned.pictures()
    assert opened(turned.shrunk("jpg", shrinker)).size == (139, 200)
    assert not Shrinker(SizeRule.parse("200"), mode="exact").can_use_picture(after.header("jpg"))
    assert not Shrinker(SizeRule.parse("600")).can_use_picture(after.header("jpg"))


def test_of_a_small_image_only_the_header_is_read():
    from wdsflow.stages.scores import View

    view = View({"jpg": encoded(photo(500, 400), "JPEG", quality=99)})
    assert view.shrunk("jpg", Shrinker(SizeRule.parse("500"))) is None
    assert view.bytes_read <= 4096


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("keep_ratio:256", "short:256"), ("border:512", "square:512"), ("512px", "short:224"), ("", "512"), ("long:1MP", "pixels:1MP"),
        ("0", "at least 1"), ("pixels:0.0000001MP", "pixels:1MP"), ("long:1.5", "whole number"), ("width:5", "long:512"), ("9" * 400, "512"),
    ],
)  # fmt: skip
def test_what_is_no_size_is_refused_with_one_that_is(text, instead):
    with pytest.raises(ValueError, match=instead):
        SizeRule.parse(text)


def test_the_stage_makes_encoded_images_smaller_before_decode():
    stage = Resize("100", image_format="webp", fields="jpg;png", on_error="drop")
    big, small = encoded(photo(400, 300), "JPEG"), encoded(photo(90, 40), "PNG")
    samples = [
        {"__key__": "a", "jpg": big, "txt": b"x"},
        {"__key__": "b", "png": small},
        {"__key__": "c", "jpg": big, "webp": small},
        {"__key__": "d", "jpg": np.zeros((300, 400, 3), np.uint8)},
        {"__key__": "e", "jpg": b"<html>"},
    ]
    found = {sample["__key__"]: sample for sample in stage(samples)}
    assert list(found["a"]) == ["__key__", "txt", "webp"]
    assert Image.open(io.BytesIO(found["a"]["webp"])).size == (100, 75)
    assert found["b"]["png"] is small
    assert stage.counts.failed == {"field-taken": 1, "not-bytes": 1, "not-an-image": 1}
    with pytest.raises(ValueError, match="center-crop:224"):
        Resize("224", crop=True)
    with pytest.raises(ValueError, match="quality"):
        Resize("224", quality=0)
    with pytest.raises(ValueError, match="'512'"):
        Resize(224, quality=50)
    assert list(stage.apply({"__key__": "f", "jpg": bytearray(big)})) == ["__key__", "webp"]
