"""A model score of one sample, computed in this process: to try it, and to compare with."""

import torch

from wdsflow.stages.scores.base import Value
from wdsflow.stages.scores.model.model import Loaded, Model, Output
from wdsflow.stages.scores.model.model_score import ModelScore, Request
from wdsflow.stages.scores.sample_view import View


def compute(score: ModelScore, sample: dict[str, bytes], device: str = "cpu") -> Value:
    """Return a model score of one sample, computed in this process.

    Raises ScoreError, and errors of loading.
    """
    view = View(sample)
    loaded: dict[Model, Loaded] = {}

    with torch.inference_mode():
        outputs = [_output(request, loaded, device) for request in score.requests(view)]
    return score.value(view, outputs)


def _output(request: Request, loaded: dict[Model, Loaded], device: str) -> Output:
    if request.after is None:
        item = request.make()
    else:
        item = request.make(_output(request.after, loaded, device))
    if request.model not in loaded:
        loaded[request.model] = request.model.load(device)
    return request.model.run(loaded[request.model], [item])[0]
