from io import BytesIO

import pytest
from PIL import Image

from tests.pictures import encoded, noise, other_images, usual_images
from tests.stages.scores.fields import Counting, score
from wdsflow.stages.scores import ScoreError


def opened():
    for name, data in usual_images().items():
        with Image.open(BytesIO(data)) as image:
            yield name, data, image


def test_sizes_modes_and_formats_are_those_that_pillow_sees():
    for name, data, image in opened():
        found = [score(each, {"jpg": data}) for each in ("width", "height", "mode", "format")]
        assert found == [*image.size, image.mode, image.format.lower()], name


def test_animations_are_those_that_pillow_sees():
    moving = 0
    for name, data, image in opened():
        animated = getattr(image, "n_frames", 1) > 1
        assert score("animated", {"jpg": data}) is animated, name
        moving += animated
    assert moving > 5


def test_formats_are_told_by_content_not_by_the_field():
    for name, data in other_images().items():
        found = score("format", {"png": data})
        assert found not in {"png", "jpeg"}, name


# Sizes of the images that Data-Juicer tests with, and the ratios that it computes.
@pytest.mark.parametrize(
    ("size", "ratio"),
    [
        ((336, 336), 1.0),
        ((640, 480), 1.3333),
        ((342, 500), 0.684),
        ((855, 1083), 0.789474),
        ((2048, 1365), 1.50037),
    ],
)
def test_the_aspect_ratio_is_data_juicers(size, ratio):
    fields = {"png": encoded(Image.new("L", size), "PNG")}
    assert score("aspect_ratio", fields) == pytest.approx(ratio, abs=5e-5)
    assert score("aspect_ratio", fields) == size[0] / size[1]
    assert score("min_side", fields) == min(size)
    assert score("pixels", fields) == size[0] * size[1]


def test_bytes_are_those_of_the_file_and_several_images_have_each_their_own():
    fields = {"0.jpg": b"x" * 171_427, "1.jpg": b"x" * 189_406}
    assert score("bytes", fields) == [171_427, 189_406]
    assert score("bytes", {"jpg": b""}) == 0


def test_an_orientation_does_not_turn_the_sides():
    data = usual_images()["jpeg-exif-6-20"]
    assert score("orientation", {"jpg": data}) == 6
    assert score("width", {"jpg": data}) == 96
    assert score("orientation", {"jpg": usual_images()["jpeg-exif-None-20"]}) == 1


@pytest.mark.parametrize("turned", [1, 2, 6, 8])
def test_a_webp_tells_its_orientation_behind_its_pixels_as_pillow_finds_it(turned):
    exif = Image.Exif()
    exif[274] = turned
    xmp = f'<rdf:Description tiff:Orientation="{turned}"/>'.encode()
    whole = noise(200, 300)
    for settings in (
        {"exif": exif},
        {"xmp": xmp},
        {"exif": exif, "save_all": True, "append_images": [noise(200, 300, seed=2)]},
    ):
        fields = Counting({"webp": encoded(whole, "WEBP", lossless=True, **settings)})
        with Image.open(BytesIO(fields["webp"])) as image:
            assert image.getexif().get(274, 1) == turned
        assert score("orientation", fields) == turned
        assert sum(size for _, _, size in fields.reads) < 10_000 < len(fields["webp"])  # no pixels
        assert score("orientation", {"webp": fields["webp"][:5000]}) == 1


def test_an_orientation_that_is_not_looked_for_is_unknown_not_upright():
    heic = b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(40)
    with pytest.raises(ScoreError, match="heic"):
        score("orientation", {"jpg": heic})
