import io

import numpy as np
import pytest
from PIL import Image, ImageOps

from tests.pictures import encoded, exif, photo, smooth
from wdsflow.stages.scores import ScoreError, View, ViewOptions
from wdsflow.stages.scores.model.pictures.geometry import Geometry
from wdsflow.stages.scores.model.pictures.prepare import Prepare

transform = pytest.importorskip("open_clip.transform", reason="OpenCLIP is not installed")

BUDGET = 1 << 30
MODES = [  # OpenCLIP's settings, and what they are to us
    ({"size": 64}, Geometry(size=(64, 64), fit="short")),
    (
        {"size": 64, "interpolation": "bilinear"},
        Geometry(size=(64, 64), fit="short", kernel="bilinear"),
    ),
    ({"size": (48, 80), "interpolation": "bilinear"}, Geometry(size=(48, 80), fit="cover")),
    ({"size": (48, 80), "resize_mode": "squash"}, Geometry(size=(48, 80), fit="both")),
    (
        {"size": 64, "resize_mode": "longest", "fill_color": 9},
        Geometry(size=(64, 64), fit="within", fill=9),
    ),
    (
        {"size": (48, 81), "resize_mode": "longest", "fill_color": 99},
        Geometry(size=(48, 81), fit="within", fill=99),
    ),
]
SIZES = [(64, 64), (200, 150), (97, 311), (311, 97), (640, 481), (30, 40)]


def expected(data, settings):
    """Return what OpenCLIP's evaluation transform makes of an image, as levels from 0 to 255."""
    config = transform.PreprocessCfg(
        **{**settings, "mean": (0.0, 0.0, 0.0), "std": (1.0, 1.0, 1.0)}
    )
    return (
        transform.image_transform_v2(config, is_train=False)(Image.open(io.BytesIO(data))).numpy()
        * 255
    )


@pytest.mark.sample(2)
@pytest.mark.parametrize(("settings", "geometry"), MODES)
def test_a_picture_is_what_the_evaluation_transform_makes_of_it(settings, geometry):
    for size in SIZES:
        image = smooth(*size)
        for data in (encoded(image, "PNG"), encoded(image, "JPEG", quality=95)):
            made = Prepare(geometry=geometry)(data, BUDGET)
            assert made.dtype == np.uint8
            assert made.flags.c_contiguous
            assert type(made) is np.ndarray
            reference = expected(data, settings)
            assert made.shape == reference.shape
            assert np.abs(made - reference).mean() < 0.5


def test_what_is_decoded_smaller_differs_by_less_than_a_level_in_the_mean():
    data = encoded(smooth(1600, 1200), "JPEG", quality=95)
    difference = np.abs(Prepare(geometry=MODES[0][1])(data, BUDGET) - expected(data, MODES[0][0]))
    assert 0 < difference.mean() < 0.7


@pytest.mark.sample(1)
@pytest.mark.parametrize(("settings", "geometry"), MODES)
def test_decoded_at_full_size_a_picture_is_openclips_but_for_rounding(settings, geometry):
    for data in (encoded(smooth(1600, 1200), "JPEG", quality=95), encoded(smooth(513, 700), "PNG")):
        difference = np.abs(
            Prepare(geometry=geometry, decode="exact")(data, BUDGET) - expected(data, settings)
        )
        assert difference.max() < 1.5
        assert difference.mean() < 0.02


@pytest.mark.deep
@pytest.mark.parametrize("flip", ["horizontal", "vertical", "both"])
@pytest.mark.parametrize("size", [(130, 101), (101, 131), (999, 701), (64, 64)])
def test_a_flipped_picture_is_that_of_the_flipped_image(flip, size):
    image = smooth(*size)
    turned = ImageOps.mirror(image) if flip != "vertical" else image
    turned = ImageOps.flip(turned) if flip != "horizontal" else turned
    for geometry in (MODES[0][1], MODES[3][1], MODES[4][1]):
        made = Prepare(geometry=geometry, flip=flip)(encoded(image, "PNG"), BUDGET)
        plain = Prepare(geometry=geometry)(encoded(turned, "PNG"), BUDGET)
        # Decoded smaller, blocks begin at another edge.
        assert np.abs(made.astype(int) - plain).mean() < 0.7
        assert (
            np.abs(
                made.astype(int) - Prepare(geometry=geometry)(encoded(image, "PNG"), BUDGET)
            ).mean()
            > 2
        )


def test_orientation_is_ignored_and_high_depth_is_scaled():
    image = smooth(60, 90)
    plain, turned = encoded(image, "JPEG"), encoded(image, "JPEG", exif=exif(6))
    prepare = Prepare(geometry=MODES[0][1])
    assert np.array_equal(prepare(plain, BUDGET), prepare(turned, BUDGET))
    grey = np.asarray(image.convert("L")).astype(np.uint16) * 257
    deep = prepare(encoded(Image.fromarray(grey), "PNG"), BUDGET)
    assert np.array_equal(deep, prepare(encoded(image.convert("L"), "PNG"), BUDGET))


@pytest.mark.parametrize(
    ("data", "budget", "slug"),
    [
        (b"", BUDGET, "not-an-image"),
        (encoded(photo(400, 300), "PNG")[:9000], BUDGET, "truncated"),
        (encoded(Image.new("1", (20_000, 20_000)), "PNG"), BUDGET, "over-budget"),
        (encoded(photo(400, 300), "PNG"), 1000, "over-budget"),
    ],
)
def test_what_cannot_be_decoded_is_an_error_with_a_name(data, budget, slug):
    with pytest.raises(ScoreError) as raised:
        Prepare(geometry=MODES[0][1])(data, budget)
    assert raised.value.slug == slug


def test_very_long_pictures_are_cut_before_they_are_resized_or_refused():
    data = encoded(Image.new("RGB", (20_000, 2), (200, 10, 10)), "PNG")
    assert np.array_equal(Prepare(geometry=MODES[0][1])(data, BUDGET)[:, 0, 0], [200, 10, 10])
    with pytest.raises(ScoreError, match="too-long"):
        Prepare(geometry=MODES[4][1])(data, BUDGET)


def test_equal_preparations_share_a_picture_while_somebody_holds_it_and_errors_stay():
    view = View({"jpg": encoded(photo(), "JPEG"), "png": b"junk"}, ViewOptions(budget=BUDGET))
    first = view.prepared("jpg", Prepare(geometry=MODES[0][1]))
    assert view.prepared("jpg", Prepare(geometry=MODES[0][1])) is first
    assert view.prepared("jpg", Prepare(geometry=MODES[0][1], flip="both")) is not first
    read = view.bytes_read
    del first
    view.prepared("jpg", Prepare(geometry=MODES[0][1]))
    assert view.bytes_read > read
    for _ in range(2):
        with pytest.raises(ScoreError, match="field 'png'"):
            view.prepared("png", Prepare(geometry=MODES[0][1]))
