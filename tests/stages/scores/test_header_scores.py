from io import BytesIO

import pytest
from PIL import Image

from tests.pictures import encoded, other_images, usual_images
from tests.stages.scores.fields import score


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
