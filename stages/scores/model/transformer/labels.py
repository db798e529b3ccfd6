"""The labels of a classifier of transformers, and their probabilities."""

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from ..model_fact import ModelFact
from .loading import config_of

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

# Labels that a message lists.
_MOST_LISTED = 20


def probabilities(logits: "torch.Tensor", problem: str | None) -> list["NDArray[np.float32]"]:
    """Return an array (labels) for each row of logits (n, labels).

    ``problem`` is the ``problem_type`` in the model's configuration.

    Softmax over the labels; sigmoids if several labels may apply; the number itself if the model
    has a single label (a regression).
    """
    logits = logits.float()
    if logits.shape[-1] > 1:
        several_apply = problem == "multi_label_classification"
        logits = logits.sigmoid() if several_apply else logits.softmax(-1)
    return list(logits.cpu().numpy())


@ModelFact
def labels_of(model: str) -> dict[int, str]:
    """Return the names of a model's labels by index."""
    return {int(index): str(name) for index, name in config_of(model).id2label.items()}


@lru_cache(maxsize=64)
def label_index(model: str, label: str) -> int:
    """Return the index of a label, given its name or number.

    Raises ValueError that lists the model's labels.
    """
    names = labels_of(model)
    exact = [index for index, name in names.items() if name == label]
    if len(exact) == 1:
        return exact[0]
    alike = [index for index, name in names.items() if name.lower() == label.lower()]
    if len(alike) == 1:
        return alike[0]
    if label.isdecimal() and int(label) in names:
        return int(label)
    if not label and len(names) == 1:
        return next(iter(names))
    raise ValueError(f"{model!r} has no label {label!r}; it has {_listed(list(names.values()))}")


def _listed(names: Sequence[str]) -> str:
    """Return the first names, and how many there are if that is not all."""
    listed = ", ".join(repr(name[:60]) for name in names[:_MOST_LISTED])
    if len(names) > _MOST_LISTED:
        return f"{listed}, ... ({len(names)} in all)"
    return listed
