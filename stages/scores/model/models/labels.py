"""Classifiers: the probabilities of their labels, and which one is meant."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from .model_fact import ModelFact
from .model_hub import config_of


def probabilities(logits: Any, config: Any) -> list[Any]:
    """Return for each row an array (labels) of float32.

    Softmax over the labels; a sigmoid for each where the model may find several; the number itself of a model with one
    label, a regression.
    """
    logits = logits.float()
    if logits.shape[-1] == 1:
        found = logits
    elif config.problem_type == "multi_label_classification":
        found = logits.sigmoid()
    else:
        found = logits.softmax(-1)
    return list(found.cpu().numpy())


def _labels(model: str) -> dict[int, str]:
    """Return the names of a model's labels by place, by its configuration."""
    return {int(place): str(name) for place, name in config_of(model).id2label.items()}


labels_of = ModelFact(_labels)


@lru_cache(maxsize=64)
def label_index(model: str, label: str) -> int:
    """Return the place of a label, given by its name or its number. Raises ValueError that names those there are."""
    names = labels_of(model)
    exact = [place for place, name in names.items() if name == label]
    alike = [place for place, name in names.items() if name.lower() == label.lower()]
    for found in (exact, alike):
        if len(found) == 1:
            return found[0]
    if label.isdecimal() and int(label) in names:
        return int(label)
    if not label and len(names) == 1:
        return next(iter(names))
    raise ValueError(f"{model!r} has no label {label!r}; it has {_listed(list(names.values()))}")


def _listed(names: Sequence[str]) -> str:
    more = f", ... ({len(names)} in all)" if len(names) > 20 else ""
    return ", ".join(repr(name[:60]) for name in names[:20]) + more
