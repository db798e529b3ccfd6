"""One sample at a time, in this process: to try a score, and to compare with."""

from typing import Any

from ..base import Value
from ..model import Model, ModelScore
from ..view import View


def compute(score: ModelScore, fields: dict[str, bytes], device: str = "cpu") -> Value:
    """Return a score of one sample; models are loaded for it. Raises ScoreError, and what loading raises."""
    import torch

    view, loaded = View(fields), dict[Model, Any]()
    outputs: list[Any] = []
    with torch.inference_mode():
        for request in score.requests(view):
            if request.model not in loaded:
                loaded[request.model] = request.model.load(device)
            outputs += request.model.run(loaded[request.model], [request.make()])
    return score.value(view, outputs)
