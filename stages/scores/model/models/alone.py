"""One sample at a time, in this process: to try a score, and to compare with."""

from typing import Any

from ...base import Value
from ...sample_view import View
from ..model_score import Model, ModelScore, Output, Request


def compute(score: ModelScore, fields: dict[str, bytes], device: str = "cpu") -> Value:
    """Return a score of one sample; models are loaded for it. Raises ScoreError, and what loading raises."""
    import torch

    view, loaded = View(fields), dict[Model, Any]()
    with torch.inference_mode():
        outputs = [_run(request, loaded, device) for request in score.requests(view)]
    return score.value(view, outputs)


def _run(request: Request, loaded: dict[Model, Any], device: str) -> Output:
    item = request.make() if request.after is None else request.make(_run(request.after, loaded, device))
    if request.model not in loaded:
        loaded[request.model] = request.model.load(device)
    return request.model.run(loaded[request.model], [item])[0]
