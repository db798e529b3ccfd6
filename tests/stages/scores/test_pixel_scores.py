import random

import numpy as np
import pytest
from PIL import Image

from tests.pictures import encoded, hurt, noise, other_images, photo, smooth, usual_images
from tests.stages.scores.fields import score
from wdsflow.stages.scores import SCORES, ScoreError, View, make_score
from wdsflow.stages.scores.picture_decoding import decode_picture

PIXELS = ("blur", "brightness", "contrast", "entropy", "is_blank", "phash")


def png(image):
    return {"png": encoded(image, "PNG")}


def flat(*colour):
    return Image.new("RGB", (80, 60), colour)


def pictures():
    yield from (
        smooth(300, 200),
        smooth(512, 400, 1),
        smooth(90, 300, 2),
        noise(64, 64),
        photo(),
        flat(9, 99, 199),
    )
    yield smooth(333, 222, 3).convert("L")


def test_the_perceptual_hash_is_imagehashs():
    imagehash = pytest.importorskip("imagehash")
    for image in pictures():
        # In that of one colour theirs is rounding noise.
        if len(set(image.convert("L").tobytes())) > 1:
            assert score("phash", png(image)) == str(imagehash.phash(image))


@pytest.mark.deep
def test_the_perceptual_hash_of_a_large_image_is_near_that_of_its_full_size():
    imagehash = pytest.importorskip("imagehash")
    for seed, size in enumerate(((1040, 700), (600, 780))):
        image = smooth(*size, seed)
        for data in (encoded(image, "PNG"), encoded(image, "JPEG", quality=90)):
            found = imagehash.hex_to_hash(score("phash", {"jpg": data}))
            assert found - imagehash.phash(image) <= 2


def test_the_hash_of_a_flat_image_does_not_depend_on_rounding():
    assert {score("phash", png(flat(level, level, level))) for level in (1, 77, 128, 255)} == {
        "8000000000000000"
    }


def test_blur_is_the_variance_of_the_laplacian():
    for image in pictures():
        luma = np.asarray(image.convert("L"), float)
        high, wide = luma.shape
        rows = [abs(row) if row < high else 2 * high - 2 - row for row in range(-1, high + 1)]
        columns = [
            abs(column) if column < wide else 2 * wide - 2 - column
            for column in range(-1, wide + 1)
        ]
        more = luma[rows][:, columns]
        edges = more[:-2, 1:-1] + more[2:, 1:-1] + more[1:-1, :-2] + more[1:-1, 2:] - 4 * luma
        assert score("blur", png(image)) == pytest.approx(edges.var(), rel=1e-12, abs=1e-12)


def test_a_blurred_image_has_less_of_it():
    from PIL import ImageFilter

    image = smooth(300, 200)
    assert score("blur", png(image.filter(ImageFilter.GaussianBlur(2)))) < 0.2 * score(
        "blur", png(image)
    )


def test_entropy_is_pillows():
    for image in pictures():
        assert score("entropy", png(image)) == pytest.approx(image.convert("L").entropy(), abs=1e-9)


def test_brightness_and_contrast_of_images_that_are_known():
    halves = Image.new("L", (100, 100))
    halves.paste(255, (0, 0, 50, 100))
    found = [
        [score(name, png(image)) for name in ("brightness", "contrast", "entropy")]
        for image in (halves, flat(255, 255, 255))
    ]
    assert found == [[0.5, 0.5, 1.0], [1.0, 0.0, 0.0]]
    values = np.asarray(photo().convert("L"), float)
    assert score("brightness", png(photo())) == pytest.approx(values.mean() / 255)
    assert score("contrast", png(photo())) == pytest.approx(values.std() / 255)


@pytest.mark.parametrize(
    "name", ["brightness", "contrast", "entropy", "blur", "width", "height", "pixels", "min_side"]
)
def test_the_ends_of_the_range_of_a_score_are_values_of_pictures(name):
    halves = np.zeros((2, 128), np.uint8)
    halves[:, 64:] = 255
    all_levels = np.arange(256, dtype=np.uint8).reshape(16, 16)
    drawn = [Image.fromarray(each) for each in (halves, all_levels, np.full((9, 9), 255, np.uint8))]
    found = [score(name, png(image)) for image in [*drawn, Image.new("L", (1, 1))]]
    kind = SCORES[name]
    assert min(found) == kind.low
    assert max(found) == kind.high or kind.high is None


def test_blank_is_what_has_one_colour():
    dotted = flat(250, 250, 250)
    dotted.paste((0, 0, 0), (10, 10, 12, 12))  # 4 of 4,800 pixels
    grainy = Image.blend(flat(100, 120, 140), noise(80, 60), 0.02)
    for image in (flat(255, 255, 255), flat(10, 200, 30), dotted, grainy):
        assert score("is_blank", png(image)) is True
    written = flat(250, 250, 250)
    written.paste((0, 0, 0), (10, 10, 20, 12))  # 20 pixels
    coloured = Image.fromarray(
        np.stack(
            [np.full((60, 80), 90), np.tile(np.arange(80), (60, 1)), np.full((60, 80), 9)], -1
        ).astype(np.uint8)
    )
    for image in (written, coloured, photo(), noise(80, 60)):
        assert score("is_blank", png(image)) is False
    assert score("is_blank", png(dotted), share=1.0) is False
    assert score("is_blank", png(photo()), tolerance=255) is True


def plainly_blank(image, tolerance, share):
    pixels = np.asarray(image).reshape(-1, 3).astype(int)
    median = np.sort(pixels, axis=0)[(len(pixels) + 1) // 2 - 1]
    return bool((np.sum(abs(pixels - median) <= tolerance, axis=0) >= share * len(pixels)).all())


def test_a_look_at_some_rows_decides_as_the_whole_does():
    rng, found = np.random.default_rng(3), set()
    for trial in range(200):
        height, share = int(rng.integers(20, 100)), float(rng.choice([0.5, 0.9, 0.95, 0.999, 1.0]))
        pixels = np.full((height, 40, 3), 120) + rng.integers(
            -9, 10, (height, 40, 3)
        ) * rng.integers(0, 2)
        pixels[rng.random((height, 40)) < (1 - share) * rng.choice([0.3, 0.98, 1.02, 3])] = (
            rng.integers(0, 256)
        )
        image = Image.fromarray(pixels.astype(np.uint8))
        expected = plainly_blank(image, 8, share)
        assert score("is_blank", png(image), share=share) is expected, trial
        found.add(expected)
    assert found == {True, False}


def test_pixels_have_the_same_scores_whichever_decoder_gave_them():
    for image in (
        photo(),
        flat(9, 99, 199),
        noise(50, 1),
        noise(1, 50),
        smooth(333, 222, 3).convert("L"),
        smooth(530, 600),
    ):
        data = encoded(image, "JPEG", quality=90)
        decoded = decode_picture(data, 1 << 30)
        assert decoded.size == image.size
        same = Image.fromarray(decoded.pixels)
        assert encoded(decoded.image, "PNG") == encoded(same, "PNG")
        for name in PIXELS:
            assert score(name, {"jpg": data}) == score(name, png(same)), name


def test_a_score_cannot_write_into_what_others_look_at():
    for data in (encoded(photo(), "JPEG"), encoded(photo(), "PNG")):
        with pytest.raises(ValueError, match="read-only"):
            decode_picture(data, 1 << 30).pixels[:] = 0


@pytest.mark.parametrize(
    "settings", [{"tolerance": -1}, {"tolerance": 8.5}, {"share": 0}, {"share": 1.01}]
)
def test_settings_outside_of_their_range_are_refused(settings):
    with pytest.raises(ValueError, match="is_blank"):
        make_score("is_blank", **settings)


@pytest.mark.parametrize(
    "size", [(1, 1), (1, 700), (3000, 1), (2, 2), (5000, 3), (513, 512), (1025, 100)]
)
def test_every_size_has_scores(size):
    image = noise(*size)
    for kind in ("PNG", "JPEG"):
        data = encoded(image, kind)
        found = {name: score(name, {"jpg": data}) for name in PIXELS}
        assert found["blur"] >= 0
        assert 0 <= found["brightness"] <= 1
        assert 0 <= found["contrast"] <= 0.5
        assert 0 <= found["entropy"] <= 8
        assert len(found["phash"]) == 16
        assert max(decode_picture(data, 1 << 30).luma.size) <= 512


def test_every_format_has_scores_and_damage_has_a_name():
    rng = random.Random(5)
    slugs = set()
    for data in [*usual_images().values(), *other_images().values()][::7]:
        for each in (data, hurt(data, rng)):
            view = View({"jpg": each})
            try:
                for name in PIXELS:
                    make_score(name).score(view)
            except ScoreError as error:
                slugs.add(error.slug)
    assert slugs <= {"not-an-image", "truncated", "undecodable", "over-budget"}


def test_values_do_not_depend_on_the_order_in_which_scores_are_asked():
    data = encoded(smooth(700, 500), "JPEG")
    one, other = View({"jpg": data}), View({"jpg": data})
    forwards = [make_score(name).score(one) for name in PIXELS]
    backwards = [make_score(name).score(other) for name in reversed(PIXELS)]
    assert forwards == backwards[::-1]
