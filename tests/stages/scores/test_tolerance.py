"""Decoding at a reduced scale changes values by no more than the scores state.

With exact decoding, the values are those of the libraries.
"""

import io
from functools import cache
from typing import Any

import numpy as np
import pytest
from PIL import Image
from support.one_score import compute

from tests.pictures import encoded, smooth
from tests.stages.scores.fields import made
from wdsflow.stages.scores import SCORES, View
from wdsflow.stages.scores.base import SEEN_PIXELS
from wdsflow.stages.scores.model.pictures.geometry import Geometry
from wdsflow.stages.scores.model.pictures.prepare import Prepare
from wdsflow.stages.scores.picture import Picture
from wdsflow.stages.scores.picture_decoding import decode_full_size, decode_picture

pytest.importorskip("open_clip", reason="OpenCLIP is not installed")
pytest.importorskip("transformers", minversion="5", reason="transformers is not installed")

import torch
import transformers

from tests.models.own import Brightest
from tests.stages.scores import tiny_models
from tests.videos import written

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
BUDGET = 1 << 30


@cache
def large_pictures():
    return [
        encoded(smooth(1600, 1200), "JPEG", quality=90),
        encoded(smooth(1300, 2000, 1), "JPEG", quality=90),
        encoded(smooth(1600, 1200, 2), "PNG"),
    ]


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["blur", "brightness", "contrast", "entropy", "phash"])
def test_pixel_scores_keep_what_they_say_of_the_scale(name):
    score: Any = SCORES[name]()
    most, of = score.scale_tolerance
    differences = []
    for data in large_pictures():
        reduced, whole = (
            score.of(decode_picture(data, BUDGET)),
            score.of(Picture(decode_full_size(data, BUDGET))),
        )
        if of == "bits":
            differences.append((int(reduced, 16) ^ int(whole, 16)).bit_count())
        else:
            differences.append(abs(reduced - whole) / (whole if of else 1))
    assert max(differences) <= most
    assert max(differences) > 0 or of == "bits"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


def settings_of(folder):
    return {"model": tiny_models.image_classifier(folder / "classify"), "label": "1"}


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "name", ["clip_similarity", "zero_shot", "aesthetic", "classify", "image_text_match"]
)
@pytest.mark.parametrize("side", [32, 224])
def test_models_see_pixels_that_keep_what_their_scores_say_of_the_scale(name, side):
    assert SCORES[name].scale_tolerance is SEEN_PIXELS
    geometry = Geometry(size=(side, side), fit="short")
    for data in large_pictures():
        fast, exact = (
            Prepare(geometry=geometry, decode=how)(data, BUDGET).astype(float)
            for how in ("fast", "exact")
        )
        assert 0 < np.abs(fast - exact).mean() <= SEEN_PIXELS.most


@pytest.mark.deep
def test_text_in_pictures_keeps_what_it_says_of_the_scale():
    pytest.importorskip("easyocr_en_models")
    page = written("some words to find", "and a second line").resize(
        (1400, 700), Image.Resampling.BICUBIC
    )
    fields = {"jpg": encoded(page, "JPEG", quality=90)}
    fast, exact = (
        compute(made("ocr_area", canvas=320, decode=how), fields) for how in ("fast", "exact")
    )
    assert 0 < abs(fast - exact) <= SCORES["ocr_area"].scale_tolerance.most


@pytest.mark.deep
def test_decoded_at_full_size_classify_gives_the_librarys_own_number(folder):
    settings = settings_of(folder)
    model = transformers.ViTForImageClassification.from_pretrained(settings["model"]).eval()
    processor = transformers.AutoImageProcessor.from_pretrained(settings["model"])
    for data in large_pictures():
        pixels = processor(images=Image.open(io.BytesIO(data)).convert("RGB"), return_tensors="pt")[
            "pixel_values"
        ]
        with torch.inference_mode():
            expected = float(model(pixel_values=pixels).logits.softmax(-1)[0, 1])
        assert compute(
            made("classify", decode="exact", **settings), {"jpg": data}
        ) == pytest.approx(expected, abs=2e-6)


@pytest.mark.deep
def test_pictures_that_are_decoded_in_two_ways_may_share_a_batch(folder):
    settings = settings_of(folder)
    view = View({"jpg": large_pictures()[0]})
    requests = [
        made("classify", decode=how, **settings).requests(view)[0]
        for how in ("fast", "exact", "fast")
    ]
    items = [request.make() for request in requests]
    assert [item.dtype for item in items] == [np.uint8, np.float32, np.uint8]
    assert requests[0].key == requests[2].key != requests[1].key
    (model,) = {request.model for request in requests}
    loaded = model.load("cpu")
    with torch.inference_mode():
        together, alone = model.run(loaded, items), [model.run(loaded, [item])[0] for item in items]
    assert np.abs(np.stack(together) - np.stack(alone)).max() < 2e-5


def test_a_custom_score_gets_pictures_of_full_size_where_it_asks_for_them():
    view = View({"jpg": large_pictures()[0]})
    fast, exact = (Brightest(decode=how).requests(view)[0].make() for how in ("fast", "exact"))
    assert (fast.shape, exact.shape) == ((600, 800, 3), (1200, 1600, 3))
    assert not exact.flags.writeable
