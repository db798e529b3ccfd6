import random
import subprocess
import sys
import warnings
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from tests.pictures import encoded, exif, hurt, noise, other_images, photo, usual_images
from tests.stages.loaders import through_loader
from tests.stages.stage_laws import assert_stage_laws
from wdsflow.images import jpeg
from wdsflow.images.image_header import read_header
from wdsflow.images.jpeg import coefficient_bytes
from wdsflow.stages import Decode, Dropped, StageError
from wdsflow.stages.imaging.decoding_memory import peak_bytes


def webdatasets(data):
    """Return what ``wds.decode("pilrgb")`` makes of the bytes, None if it raises."""
    from webdataset.autodecode import imagehandler

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return np.asarray(imagehandler("pilrgb")("a.png", data))
        except Exception:
            return None


def ours(stage, data):
    """Return an array, or the slug under which the image is counted."""
    try:
        return np.asarray(stage.decode(data))
    except (StageError, Dropped) as error:
        return getattr(error, "slug", None) or error.reason


def more_images():
    deep = np.arange(40 * 33, dtype=np.uint16).reshape(33, 40) * 49
    yield "tiff-F", encoded(Image.fromarray(deep.astype(np.float32) / 65535), "TIFF")
    yield "tiff-I16", encoded(Image.fromarray(deep), "TIFF")
    yield "png-I16", encoded(Image.fromarray(deep), "PNG")
    yield "tiff-I", encoded(Image.fromarray(deep.astype(np.int32) * 9), "TIFF")
    yield "tiff-cmyk", encoded(noise(40, 33, "CMYK"), "TIFF")
    yield "mpo", encoded(photo(), "MPO", save_all=True, append_images=[photo(seed=1)])
    yield "rotated", encoded(photo(), "TIFF", exif=exif(6))


ALL = {**usual_images(), **other_images(), **dict(more_images())}


@pytest.mark.webdataset
def test_reference_is_equal_to_webdatasets_decoder_in_every_bit():
    stage = Decode(mode="reference")
    decoded = 0
    for name, data in ALL.items():
        theirs, mine = webdatasets(data), ours(stage, data)
        if theirs is None or name == "eps":  # which Pillow opens by running a program
            assert isinstance(mine, str), name
        else:
            assert np.array_equal(theirs, mine), name
            decoded += 1
    assert decoded > 200


@pytest.mark.webdataset
def test_exact_is_equal_to_webdatasets_decoder_for_usual_images_but_high_depth():
    stage = Decode(mode="exact", output="numpy")
    for name, data in usual_images().items():
        theirs, mine = webdatasets(data), ours(stage, data)
        if theirs is not None and "I;16" not in name:
            assert np.array_equal(theirs, mine), name


@pytest.mark.sample(1)
@pytest.mark.parametrize("output", ["pil", "numpy"])
def test_images_that_are_small_already_are_the_same_in_fast_and_exact_mode(output):
    for name, data in ALL.items():
        one, other = (
            ours(Decode(target=600, output=output), data),
            ours(Decode(mode="exact", output=output), data),
        )
        assert np.array_equal(one, other), name


@pytest.mark.sample(1)
@pytest.mark.parametrize("mode", ["fast", "exact", "reference"])
@pytest.mark.parametrize("output", ["pil", "numpy"])
def test_damage_is_counted_and_never_raises_anything_else(mode, output):
    rng = random.Random(7)
    stage = Decode(mode=mode, target=8, output=output, orientation="ignore", max_pixels=1_000_000)
    images = [data for data in ALL.values() if len(data) < 40_000]
    samples = [
        {"__key__": str(number), "jpg": hurt(rng.choice(images), rng)} for number in range(600)
    ]
    samples += [{"__key__": "whole", "png": encoded(photo(), "PNG")}, {"__key__": "nothing"}]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow's, of damaged EXIF
        kept = list(stage(samples))
    slugs = {"not-an-image", "truncated", "undecodable", "no-image"}
    assert set(stage.counts.failed) <= slugs
    assert set(stage.counts.dropped) <= {"too-many-pixels"}
    assert kept[-1]["__key__"] == "whole"
    assert stage.counts.failed["no-image"] == 1
    assert {"truncated", "undecodable"} <= set(stage.counts.failed)


@pytest.mark.sample(1)
@pytest.mark.parametrize("mode", ["fast", "exact"])
def test_pillow_alone_judges_damaged_jpegs(mode):
    rng = random.Random(3)
    jpeg = encoded(photo(300, 200), "JPEG")
    stage, reference = Decode(mode=mode), Decode(mode="reference")
    taken = 0
    for _ in range(150):
        data = hurt(jpeg, rng)
        mine, theirs = ours(stage, data), ours(reference, data)
        if not isinstance(theirs, str):
            assert not isinstance(mine, str)
            assert mine.shape == theirs.shape
            taken += 1
    assert 20 < taken < 150


@pytest.mark.parametrize(
    ("data", "slug"),
    [
        (b"", "not-an-image"),
        (b"<html><body>404</body></html>", "not-an-image"),
        (b"\0" * 5000, "not-an-image"),
        (encoded(photo(), "JPEG")[:900], "truncated"),
        (encoded(photo(), "JPEG")[:100], "truncated"),
        (encoded(photo(), "PNG")[:3000], "truncated"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "undecodable"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "undecodable"),
        ("a string", "not-bytes"),
        (photo(), "not-bytes"),
    ],
)
def test_what_is_wrong_has_a_name(data, slug):
    for mode in ("fast", "exact", "reference"):
        assert ours(Decode(mode=mode), data) == slug


def test_the_format_is_told_by_the_bytes_and_not_by_the_field():
    (sample,) = Decode()([{"__key__": "a", "jpg": encoded(photo(), "PNG")}])
    assert np.array_equal(np.asarray(sample["jpg"]), np.asarray(photo()))


def test_errors_are_counted_unless_they_shall_end_the_run():
    sample = {"__key__": "a/b", "__url__": "x.tar", "jpg": b"nonsense"}
    stage = Decode()
    assert list(stage([dict(sample)])) == []
    assert stage.counts.failed == {"not-an-image": 1}
    with pytest.raises(StageError, match=r"'a/b' of 'x\.tar': field 'jpg'"):
        list(Decode(on_error="raise")([dict(sample)]))


def test_each_entry_of_fields_is_decoded_and_of_alternatives_the_first_that_is_there():
    png = encoded(photo(), "PNG")
    (sample,) = Decode(fields=("jpg;png", "seg.png"))(
        [{"__key__": "a", "png": png, "seg.png": png, "thumb.jpg": png}]
    )
    assert [type(sample[name]) is bytes for name in ("png", "seg.png", "thumb.jpg")] == [
        False,
        False,
        True,
    ]


def test_pixels_are_counted_before_they_are_decoded():
    header = encoded(photo(), "PNG")[:8]
    wide = (
        b"IHDR" + (20_000).to_bytes(4, "big") + (10_000).to_bytes(4, "big") + bytes((8, 2, 0, 0, 0))
    )
    import zlib

    png = (
        header
        + (13).to_bytes(4, "big")
        + wide
        + zlib.crc32(wide).to_bytes(4, "big")
        + b"\0\0\0\x00IDAT"
    )
    assert ours(Decode(), png) == "too-many-pixels"
    assert ours(Decode(max_pixels=None, mode="reference", budget=1 << 29), png) == "over-budget"
    # Pillow's own limit.
    assert ours(Decode(max_pixels=None, budget=None), png) == "too-many-pixels"
    assert ours(Decode(max_pixels=96 * 72), encoded(photo(), "WEBP")).shape == (72, 96, 3)
    assert ours(Decode(max_pixels=96 * 72 - 1), encoded(photo(), "WEBP")) == "too-many-pixels"


def test_sides_and_memory_are_judged_by_the_header():
    jpeg = encoded(photo(96, 72), "JPEG")[:700]  # no pixels in it
    assert ours(Decode(min_side=73), jpeg) == "too-small"
    assert ours(Decode(min_side=72, budget=1000), jpeg) == "over-budget"
    assert ours(Decode(min_side=72), jpeg) == "truncated"


def test_high_depth_is_scaled_or_clipped():
    deep = np.linspace(0, 65535, 64 * 64).astype(np.uint16).reshape(64, 64)
    share = deep.astype(np.float32) / 65535
    share[0, :3] = np.nan, np.inf, -np.inf
    expected = (deep / 257).round()
    for data in (encoded(Image.fromarray(deep), "PNG"), encoded(Image.fromarray(share), "TIFF")):
        pixels = ours(Decode(), data).astype(int)
        assert np.abs(pixels[1:] - expected[1:, :, None]).max() <= 1
        assert pixels[0, :3].max() == 0
    clipped = ours(Decode(high_depth="clip"), encoded(Image.fromarray(deep), "PNG"))
    assert (clipped == 255).mean() > 0.9


def test_any_other_range_of_values_is_stretched():
    for values in (
        np.array([[-5.0, 0.0, 5.0]], np.float32),
        np.array([[-70_000, 0, 70_000]], np.int32),
    ):
        assert ours(Decode(), encoded(Image.fromarray(values), "TIFF"))[0, :, 0].tolist() == [
            0,
            128,
            255,
        ]
    flat = np.full((2, 2), -3.0, np.float32)
    assert ours(Decode(), encoded(Image.fromarray(flat), "TIFF")).max() == 0


def test_transparency_is_dropped_or_laid_on_a_colour():
    image = Image.new("RGBA", (3, 1), (255, 0, 0, 0))
    image.putpixel((1, 0), (255, 0, 0, 255))
    for kind, options in (("PNG", {}), ("WEBP", {"lossless": True, "exact": True})):
        data = encoded(image, kind, **options)
        assert ours(Decode(), data)[0].tolist() == [[255, 0, 0]] * 3
        assert ours(Decode(alpha=(255, 255, 255)), data)[0].tolist() == [
            [255] * 3,
            [255, 0, 0],
            [255] * 3,
        ]
    palette = Image.new("P", (2, 1))
    palette.putpalette([9, 9, 9, 200, 0, 0])
    palette.putpixel((1, 0), 1)
    data = encoded(palette, "PNG", transparency=b"\x00\xff")
    assert ours(Decode(), data)[0].tolist() == [[9, 9, 9], [200, 0, 0]]
    assert ours(Decode(alpha=(1, 2, 3)), data)[0].tolist() == [[1, 2, 3], [200, 0, 0]]


@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation_is_applied_as_pillow_applies_it(orientation):
    from PIL import ImageOps

    for kind in ("JPEG", "PNG", "WEBP"):
        data = encoded(photo(40, 24), kind, exif=exif(orientation))
        upright = np.asarray(ImageOps.exif_transpose(Image.open(BytesIO(data))).convert("RGB"))
        for output in ("pil", "numpy"):
            assert np.array_equal(ours(Decode(orientation="apply", output=output), data), upright)
        assert ours(Decode(), data).shape == (24, 40, 3)


def test_without_simplejpeg_pillow_gives_the_same(monkeypatch):
    jpegs = [data for name, data in usual_images().items() if name.startswith("jpeg")]
    jpegs.append(encoded(photo(1003, 777), "JPEG"))
    stage = Decode(target=40, output="numpy")
    before = [ours(stage, data) for data in jpegs]
    jpeg.load_simplejpeg.cache_clear()
    monkeypatch.setitem(sys.modules, "simplejpeg", None)
    try:
        after = [ours(stage, data) for data in jpegs]
    finally:
        jpeg.load_simplejpeg.cache_clear()
    for one, other in zip(before, after, strict=True):
        assert np.array_equal(one, other)
    assert before[-1].shape == (98, 126, 3)


def test_a_scaled_jpeg_is_as_large_as_k_times_the_target():
    jpeg = encoded(photo(1000, 600), "JPEG")
    sizes = {k: ours(Decode(target=70, k=k), jpeg).shape[0] for k in (1, 2, 3, 5)}
    assert sizes == {1: 75, 2: 150, 3: 300, 5: 600}
    assert ours(Decode(target=(40, 240)), jpeg).shape == (300, 500, 3)
    assert ours(Decode(), jpeg).shape == (600, 1000, 3)


def test_coefficients_are_counted_where_libjpeg_keeps_them():
    picture = photo(160, 96)
    assert coefficient_bytes(encoded(picture, "JPEG")) == 0
    blocks = 20 * 12
    assert (
        coefficient_bytes(encoded(picture, "JPEG", progressive=True, subsampling=0))
        == 3 * blocks * 128
    )
    assert (
        coefficient_bytes(encoded(picture, "JPEG", progressive=True, subsampling=2))
        == blocks * 128 * 3 // 2
    )
    assert (
        coefficient_bytes(encoded(picture.convert("L"), "JPEG", progressive=True)) == blocks * 128
    )
    assert coefficient_bytes(b"\xff\xd8\xff\xe0\0") is None
    frame, scan = (
        b"\xff\xc2\0\x0b\x08\0\x08\0\x08\x01\x01\x11\0",
        b"\xff\xda\0\x08\x01\x01\0\0\x3f\0",
    )
    assert coefficient_bytes(b"\xff\xd8" + frame + scan) == 128
    assert coefficient_bytes(b"\xff\xd8" + scan + frame) == 0


def test_each_image_can_have_a_target_of_its_own():
    asked = []

    def aim(width, height):
        asked.append((width, height))
        return height // 4, width // 4

    for data in (encoded(photo(1000, 600), "JPEG"), encoded(photo(1000, 600), "PNG")):
        assert Decode(output="numpy").decode(data, aim=aim).shape == (300, 500, 3)
        assert Decode(mode="exact", output="numpy").decode(data, aim=aim).shape == (600, 1000, 3)
        assert Decode(target=1).decode(data, aim=lambda width, height: None).size == (1000, 600)
    assert asked == [(1000, 600)] * 4


def png_with_two_headers():
    """Return a PNG of 48 x 64 pixels whose first header says 64 x 48; Pillow takes the second."""
    start = 8 + 25
    return encoded(photo(64, 48), "PNG")[:start] + encoded(photo(48, 64), "PNG")[8:]


def test_the_size_that_is_aimed_at_is_told_again_where_the_header_was_mistaken():
    asked, admitted = [], []
    image = Decode().decode(
        png_with_two_headers(), aim=lambda *size: asked.append(size), admit=admitted.append
    )
    assert asked == [(64, 48), (48, 64)]
    assert image.size == (48, 64)
    assert len(admitted) == 2


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_the_memory_is_told_before_decoding_and_can_be_refused(kind):
    data = encoded(photo(1000, 600), kind)
    told = []
    stage = Decode(output="numpy", budget=None)
    stage.decode(data, aim=lambda width, height: 60, admit=told.append)
    coefficients = coefficient_bytes(data) if kind == "JPEG" else None
    assert told == [peak_bytes(read_header(data), "fast", 60, coefficients=coefficients)]

    def refuse(peak):
        raise KeyError(peak)

    with pytest.raises(KeyError):
        stage.decode(data, admit=refuse)

    def second(peak):
        told.append(peak)
        if len(told) == 3:
            raise KeyError(peak)

    with pytest.raises(KeyError):  # also where Pillow has opened it already
        stage.decode(png_with_two_headers(), admit=second)


def test_what_is_over_the_budget_is_not_admitted():
    told = []
    with pytest.raises(Dropped, match="over-budget"):
        Decode(budget=1000).decode(encoded(photo(), "JPEG"), admit=told.append)
    assert told == []


MEASURE = """
import sys
from pathlib import Path
from PIL import Image
import simplejpeg
from wdsflow.memory.usage import peak_resident_bytes
from wdsflow.stages.decode import Decode
from tests.pictures import encoded, photo
stage = Decode(mode=sys.argv[2], target=int(sys.argv[3]) or None, output=sys.argv[4], max_pixels=None)
data = Path(sys.argv[1]).read_bytes()
small = encoded(photo(600, 500), sys.argv[5])
stage.decode(small)
before = peak_resident_bytes()
stage.decode(data)
print(peak_resident_bytes() - before)
"""


def extra_memory(path, mode, target, output, kind):
    """Return by how much the peak memory of a fresh process grows when it decodes a file."""
    command = [sys.executable, "-c", MEASURE, str(path), mode, str(target), output, kind]
    environment = {"PYTHONPATH": ":".join(part for part in sys.path if part), "PATH": ""}
    return int(
        subprocess.run(command, capture_output=True, check=True, text=True, env=environment).stdout
    )


@pytest.mark.sample(1)
@pytest.mark.parametrize("output", ["pil", "numpy"])
def test_a_jpeg_of_12_megapixels_takes_at_most_10_mib(tmp_path, output):
    path = tmp_path / "a.jpg"
    Image.effect_mandelbrot((4000, 3000), (-2, -1.5, 1, 1.5), 20).convert("RGB").save(path)
    assert extra_memory(path, "fast", 224, output, "JPEG") <= 10 << 20


@pytest.mark.deep
@pytest.mark.parametrize(
    ("kind", "mode", "change", "options"),
    [
        ("JPEG", "fast", "RGB", {"progressive": True}),
        ("JPEG", "exact", "RGB", {}),
        ("JPEG", "reference", "CMYK", {}),
        ("JPEG", "reference", "RGB", {}),
        ("PNG", "fast", "RGB", {}),
        ("PNG", "exact", "RGB", {}),
        ("PNG", "exact", "RGBA", {}),
        ("PNG", "exact", "I;16", {}),
        ("WEBP", "exact", "RGB", {"quality": 30, "method": 0}),
        ("WEBP", "reference", "RGBA", {"quality": 30, "method": 0}),
        ("GIF", "exact", "P", {}),
        ("TIFF", "exact", "RGB", {"compression": "tiff_lzw"}),
    ],
)
def test_the_memory_told_from_the_header_bounds_what_is_used(tmp_path, kind, mode, change, options):
    picture = photo(250, 200).resize((2000, 1600))
    if change == "I;16":
        picture = Image.fromarray(np.asarray(picture.convert("L")).astype(np.uint16) * 257)
    path = tmp_path / "image"
    picture.convert(change).save(path, kind, **options)
    data = path.read_bytes()
    told = peak_bytes(
        read_header(data),
        mode,
        224,
        coefficients=coefficient_bytes(data) if kind == "JPEG" else None,
    )
    used = extra_memory(path, mode, 224, "numpy", kind)
    assert used <= told
    assert told <= 60 * 2000 * 1600


def test_decode_keeps_the_laws_of_stages():
    images = [
        encoded(photo(64, 48, seed), kind) for seed, kind in enumerate(("JPEG", "PNG", "WEBP"))
    ]
    samples = [
        {"__key__": str(number), "jpg": data}
        for number, data in enumerate([*images, b"", b"<html>", images[0]])
    ]
    for output in ("pil", "numpy"):
        out = assert_stage_laws(Decode(target=10, output=output, alpha=(1, 2, 3)), samples)
        assert [sample["__key__"] for sample in out] == ["0", "1", "2", "5"]


@pytest.mark.webdataset
@pytest.mark.parametrize("method", [None, "fork"])
def test_decode_runs_inside_webdatasets_pipeline(method):
    samples = [{"__key__": "a", "jpg": encoded(photo(64, 48), "JPEG")}]
    (sample,) = through_loader(Decode(output="numpy"), samples, method)
    assert sample["jpg"].shape == (48, 64, 3)


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "quick"},
        {"fields": ()},
        {"fields": "__key__"},
        {"k": 0.5},
        {"output": "np"},
        {"on_error": "skip"},
        {"alpha": "white"},
        {"alpha": (0, 0, 256)},
        {"target": 0},
        {"mode": "reference", "alpha": (0, 0, 0)},
        {"mode": "reference", "orientation": "apply"},
    ],
)
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(ValueError):
        Decode(**options)
