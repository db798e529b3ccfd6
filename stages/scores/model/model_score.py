"""Base classes of scores that models compute.

A score requests items of a sample, and makes a value from the outputs.
"""

from abc import abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from ..base import Score, Value
from ..sample_view import View
from .model import Item, Model, Output


class Request(NamedTuple):
    """An item for a model."""

    model: Model
    # Of the item among those of its sample and model: ("jpg", False), a caption.
    key: Hashable
    # Called once for equal keys of a sample, in the decoder; may raise ScoreError.
    make: Callable[..., Item]
    # Request that must run first; ``make`` is called with its output.
    after: "Request | None" = None


@dataclass(frozen=True, kw_only=True)
class ModelScore(Score, tier="model", gpus=0.25):
    """A score computed from a model's outputs."""

    @abstractmethod
    def requests(self, view: View) -> list[Request]:
        """Return the requests for one sample. Raises ScoreError if it cannot be computed."""

    @abstractmethod
    def value(self, view: View, outputs: Sequence[Output]) -> Value:
        """Return the value for the outputs.

        There is one output for each request, in their order. Raises ScoreError.
        """

    def main_model(self) -> Model:
        """Return the model, if there is only one."""
        raise NotImplementedError

    def models(self) -> tuple[Model, ...]:
        """Return the models of the score; they are loaded and tried before the first sample."""
        return (self.main_model(),)

    def identity(self) -> dict[str, object]:
        return {**super().identity(), "models": [model.identity() for model in self.models()]}

    def score(self, *_: Any, **__: Any) -> Any:
        raise TypeError(f"{self.name} is computed in batches: call requests, run them, then value")


class CaptionModelScore(ModelScore, subject="caption"):
    """A score of captions by one model, with one item for each caption."""

    caption: str

    @abstractmethod
    def item(self, text: str) -> Item:
        """Return the model's input for a caption. Raises ScoreError."""

    def requests(self, view: View) -> list[Request]:
        model = self.main_model()
        return [
            Request(model, text, partial(self.item, text)) for text in view.captions(self.caption)
        ]
