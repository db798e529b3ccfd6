"""Pictures with text, and what bare EasyOCR says of them."""

import tempfile
from functools import cache
from pathlib import Path

import easyocr
import easyocr_en_models
import numpy as np
import torch

from tests.videos import written
from wdsflow.stages.scores import View, ViewOptions, make_score

WEIGHTS = str(Path(easyocr_en_models.__path__[0]) / "models")


@cache
def bare(recognizer=False):
    """EasyOCR's own reader."""
    with tempfile.TemporaryDirectory() as folder:
        return easyocr.Reader(
            ["en"], gpu=False, recognizer=recognizer, verbose=False, download_enabled=False, quantize=False,
            model_storage_directory=WEIGHTS, user_network_directory=folder,
        )  # fmt: skip


@cache
def loaded(model):
    return model.load("cpu")


def run(model, items):
    with torch.inference_mode():
        return model.run(loaded(model), items)


def computed(score, view):
    """The value of a score, each of its items run alone."""
    return score.value(view, [output_of(request) for request in score.requests(view)])


def output_of(request):
    item = request.make() if request.after is None else request.make(output_of(request.after))
    return run(request.model, [item])[0]


def value(name, fields, *, options=None, **settings):
    return computed(make_score(name, **settings), View(fields, options or ViewOptions()))


def by_data_juicer(image):
    """The sum of areas as Data-Juicer's filter takes it, of what bare EasyOCR detects."""
    lines, quads = bare().detect(np.asarray(image))
    area = sum((right - left) * (bottom - top) for left, right, top, bottom in lines[0])
    for quad in quads[0]:
        for corners in (quad[:3], [*quad[2:], quad[0]]):
            area += 0.5 * abs(np.linalg.det([[*corner, 1] for corner in corners]))
    return area / (image.width * image.height)


def tilted(text, angle=20, size=(256, 192)):
    return written(text, size=size, font=32).rotate(
        angle, fillcolor="white", center=(size[0] / 2, 40)
    )
