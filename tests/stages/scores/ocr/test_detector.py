import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch

pytest.importorskip("easyocr")
pytest.importorskip("easyocr_en_models")

from tests.pictures import smooth
from tests.stages.scores.ocr.texts import WEIGHTS, bare, loaded, run, tilted
from tests.videos import written
from wdsflow.memory.weigh import estimated_size
from wdsflow.models.loaded import LoadedModels
from wdsflow.stages.scores.model.ocr.canvas_groups import PaddedSize, groups_of
from wdsflow.stages.scores.model.ocr.text_boxes import Canvas, OnCanvas, boxes_of
from wdsflow.stages.scores.model.ocr.text_detector import TextDetector, likelihoods
from wdsflow.stages.scores.model.ocr.text_lines import cut_lines, lines_of
from wdsflow.stages.scores.model.ocr.text_reader import TextReader

MODEL = TextDetector()
READER = TextReader()


def pictures():
    yield written("some words to find", "and a second line")
    yield tilted("leaning words")
    yield written("odd sizes", size=(201, 77))
    yield smooth(128, 96)
    yield written("WIDE", size=(160, 64), back="navy", ink="yellow")


def items(canvas=2560):
    return [OnCanvas(canvas).of(np.asarray(image)) for image in pictures()]


def maps(several):
    with torch.inference_mode():
        return MODEL.maps(loaded(MODEL), several)


@pytest.mark.deep
def test_boxes_are_those_of_bare_easyocr():
    tilts = 0
    for image, item in zip(pictures(), items(), strict=True):
        lines, quads = bare().detect(np.asarray(image))
        boxes = boxes_of(run(MODEL, [item])[0])
        assert boxes.upright == [tuple(map(int, line)) for line in lines[0]]
        assert boxes.tilted == [[(float(x), float(y)) for x, y in quad] for quad in quads[0]]
        tilts += len(boxes.tilted)
    assert tilts


@pytest.mark.deep
def test_larger_pictures_are_made_smaller_as_easyocr_does_it():
    image = written("LARGE", size=(400, 150), font=60)
    lines, _ = bare().detect(np.asarray(image), canvas_size=192)
    item = OnCanvas(192).of(np.asarray(image))
    assert item.pixels.shape == (72, 192, 3)
    assert boxes_of(run(MODEL, [item])[0]).upright == [tuple(map(int, line)) for line in lines[0]]
    assert lines[0]


@pytest.mark.deep
def test_neighbours_and_order_do_not_change_what_is_found():
    several = items() * 2
    alone = [maps([item])[0] for item in items()] * 2
    assert alone
    together = maps(several)
    backwards = maps(several[::-1])[::-1]
    for one, two, three in zip(alone, together, backwards, strict=True):
        assert np.abs(one.scores - two.scores).max() < 1e-4
        assert np.abs(one.scores - three.scores).max() < 1e-4
        assert boxes_of(one) == boxes_of(two) == boxes_of(three)


@pytest.mark.deep
def test_neighbours_do_not_change_what_is_read():
    model = TextReader()
    several = [
        lines_of(item.pixels, maps) for item, maps in zip(items(), run(MODEL, items()), strict=True)
    ]
    alone = [run(model, [item])[0] for item in several]
    for one, two in zip(alone, run(model, several), strict=True):
        assert [text for text, _ in one] == [text for text, _ in two]
        assert [sure for _, sure in one] == pytest.approx([sure for _, sure in two], abs=1e-4)
    assert sum(len(lines) for lines in alone) >= 5


def test_the_cost_is_what_the_network_sees():
    assert [MODEL.cost(item) for item in items()] == [
        256 * 96,
        256 * 192,
        224 * 96,
        128 * 96,
        160 * 64,
    ]
    assert MODEL.cost(OnCanvas(320).of(np.zeros((9, 3000, 3), np.uint8))) == 32 * 320


def test_what_waits_for_a_model_is_weighed_by_its_pixels():
    weighed = items()
    assert weighed
    for item in weighed:
        assert item.pixels.nbytes <= estimated_size(item) < item.pixels.nbytes + 200


def test_on_a_gpu_pictures_share_a_pass_if_they_are_padded_to_the_same_size() -> None:
    sizes = [(60, 200), (64, 64), (33, 193), (200, 60), (64, 224)]
    canvases = [
        Canvas(np.zeros((height, width, 3), np.uint8), width=width, height=height)
        for height, width in sizes
    ]

    groups = groups_of(canvases)

    assert groups == [
        (PaddedSize(height=64, width=224), [0, 2, 4]),
        (PaddedSize(height=64, width=64), [1]),
        (PaddedSize(height=224, width=64), [3]),
    ]


@pytest.mark.deep
def test_a_group_of_pictures_gives_what_each_gives_alone():
    several = [OnCanvas(2560).of(np.asarray(written(word))) for word in ("one", "two", "three")]
    with torch.inference_mode():
        together = likelihoods(loaded(MODEL), several, PaddedSize(height=96, width=256))
    assert len(together) == 3
    for item, scores in zip(several, together, strict=True):
        assert np.abs(maps([item])[0].scores - scores).max() < 1e-4


def test_the_largest_item_is_not_tried_where_the_device_is_the_cpu_of_a_machine_with_a_gpu(
    monkeypatch,
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    models = LoadedModels("cpu")
    assert models.prepare([TextDetector(canvas=100)]).lines == ()  # else one says what it took
    assert MODEL.cost(TextDetector(canvas=100).largest()) == 128 * 128


def test_a_model_travels_and_is_told_by_its_weights_not_their_folder():
    model = TextDetector(weights=WEIGHTS)
    assert pickle.loads(pickle.dumps(model)) == model
    assert model.identity() == MODEL.identity()
    assert model.identity() != TextDetector(canvas=640).identity()
    assert MODEL.identity()["versions"]["easyocr"]


def test_weights_that_are_not_there_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"craft_mlt_25k\.pth"):
        TextDetector(weights=str(tmp_path)).load("cpu")


def test_a_pickle_in_place_of_weights_is_not_loaded(tmp_path):
    (tmp_path / "craft_mlt_25k.pth").write_bytes(pickle.dumps(print))
    with pytest.raises(Exception, match=r"[Ww]eights|pickle|load"):
        TextDetector(weights=str(tmp_path)).load("cpu")


def test_maps_and_items_travel():
    item = items()[0]
    again = pickle.loads(pickle.dumps(item))
    assert np.array_equal(again.pixels, item.pixels)
    for found in (maps([item])[0], run(MODEL, [item])[0]):
        assert boxes_of(pickle.loads(pickle.dumps(found))) == boxes_of(found)


@pytest.mark.parametrize("canvas", [2560, pytest.param(96, marks=pytest.mark.deep)])
def test_a_cpu_finds_the_boxes_and_reads_the_lines_that_decoders_of_a_gpu_would(canvas):
    several = items(canvas)[:3]
    lines = 0
    for item, here, found in zip(several, maps(several), run(MODEL, several), strict=True):
        assert boxes_of(found) == boxes_of(here)
        cut, uncut = lines_of(item.pixels, here), lines_of(item.pixels, found)
        again = cut_lines(*uncut)
        assert [line.width for line in again] == [line.width for line in cut]
        assert len(again) == len(cut)
        for one, two in zip(again, cut, strict=True):
            assert np.array_equal(one.pixels, two.pixels)  # type: ignore[attr-defined]
        lines += len(cut)
    assert lines >= 3
    assert run(READER, [uncut]) == run(READER, [cut])


def test_the_cost_of_upright_lines_is_known_before_they_are_cut():
    for item in items()[:1]:
        found = run(MODEL, [item])[0]
        uncut = lines_of(item.pixels, found)
        assert found.on_canvas.upright
        assert READER.cost(uncut) == READER.cost(cut_lines(*uncut))


def test_transparent_and_grey_images_are_taken_as_colour():
    from tests.pictures import encoded

    grey = written("grey").convert("LA")
    canvas = OnCanvas(2560)(encoded(grey, "PNG"), 1 << 30)
    assert np.array_equal(canvas.pixels, np.asarray(grey.convert("RGB")))


@pytest.mark.deep
def test_loading_leaves_nothing_that_needs_a_gradient():
    assert not any(parameter.requires_grad for parameter in loaded(MODEL).parameters())


DECODER = """
import pickle, sys
from wdsflow.filtering.deciding.plan import plan_of
from wdsflow.filtering.recipe.recipe import Recipe
from wdsflow.stages.scores.model.ocr.text_boxes import boxes_of
from wdsflow.stages.scores.model.ocr.text_lines import lines_of

pixels, found = pickle.load(sys.stdin.buffer)
plan = plan_of(Recipe(scores=("ocr_area", "ocr_text")))
assert plan.score_identities
assert boxes_of(found).upright
assert lines_of(pixels, found).widths
print(sorted({"torch", "torchvision", "easyocr"} & sys.modules.keys()))
"""


@pytest.mark.usefixtures("new_interpreters")
def test_a_decoder_imports_neither_easyocr_nor_torch_if_models_run_on_a_cpu():
    item = items()[0]
    given = pickle.dumps((item.pixels, run(MODEL, [item])[0]))
    done = subprocess.run(
        [sys.executable, "-c", DECODER], input=given, capture_output=True, check=True
    )
    assert done.stdout.decode().strip() == "[]"
