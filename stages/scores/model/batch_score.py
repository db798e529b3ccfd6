"""The base class of custom scores: a score that brings its own model."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

from ..base import Scalar, Score, Value, single_or_list
from ..picture_decoding import decode_full_size
from ..sample_view import View
from .model import Item, Loaded, Model, Output
from .model_score import ModelScore, Request
from .returned_values import checked_outputs, scalar


@dataclass(frozen=True, kw_only=True)
class BatchScore(ModelScore):
    """Base class of scores that a model computes for a batch of items.

    A frozen dataclass with ``name``, ``inputs``, ``load`` and ``score``; its fields are its
    settings.

    ``inputs`` is the type of the items of a batch: "image" an array (height, width, 3) of uint8,
    RGB, as ``Picture`` decodes it, or of full size with decode="exact"; "caption" a string; "pair"
    both, each caption with the sample's first image. If the sample has several images or captions,
    the value is a list.
    """

    inputs: ClassVar[Literal["image", "caption", "pair"]] = "image"

    image: str = ""
    caption: str = ""
    decode: Literal["fast", "exact"] = "fast"

    @abstractmethod
    def load(self, device: str) -> Loaded:
        """Return the model, on a torch device ("cpu", "cuda:1"). Called once for each device."""

    @abstractmethod
    def score(self, loaded: Loaded, batch: Sequence[Item]) -> Sequence[Scalar]:
        """Return a value for each item, in order.

        A value must not depend on the other items. Called in inference mode.

        A list, or an array of shape (n,) or (n, 1). An item whose value is NaN or infinite is the
        error "not-finite".
        """

    def cost(self, item: Item) -> int:
        """Return the pixels of a picture, the characters of a caption, or their sum for a pair."""
        if self.inputs == "caption":
            return len(item)
        if self.inputs == "image":
            return _pixel_count(item)
        picture, text = item
        return _pixel_count(picture) + len(text)

    def main_model(self) -> Model:
        return BatchScoreModel(score=self)

    def identity(self) -> dict[str, object]:
        # That of the model is the same: ``ModelScore.identity`` would repeat it.
        return Score.identity(self)

    def requests(self, view: View) -> list[Request]:
        model = self.main_model()
        if self.inputs == "caption":
            texts = view.captions(self.caption)
            return [Request(model, text, partial(str, text)) for text in texts]
        names = view.image_names(self.image)
        if self.inputs == "image":
            return [
                Request(model, name, partial(self._pixels, view, number))
                for number, name in enumerate(names)
            ]
        texts = view.captions(self.caption)
        return [Request(model, text, partial(self._pair, view, text)) for text in texts]

    def value(self, view: View, outputs: Sequence[Output]) -> Value:
        return single_or_list([scalar(output, self.kind, "score()") for output in outputs])

    def _pixels(self, view: View, number: int) -> Item:
        """Return the image of a number, an array (height, width, 3) of uint8."""
        if self.decode == "fast":
            return view.pictures(self.image)[number].pixels
        return view.prepared(view.image_names(self.image)[number], decode_full_size)

    def _pair(self, view: View, text: str) -> Item:
        return self._pixels(view, 0), text


@dataclass(frozen=True, kw_only=True)
class BatchScoreModel(Model, kind="custom score"):
    """The model of a custom score, which loads and runs it."""

    score: BatchScore

    def load(self, device: str) -> Loaded:
        return self.score.load(device)

    def display_name(self) -> str:
        return self.score.name

    def run(self, loaded: Loaded, batch: Sequence[Item]) -> Sequence[Output]:
        return checked_outputs(self.score.score(loaded, batch), len(batch))

    def cost(self, item: Item) -> int:
        return self.score.cost(item)

    def identity(self) -> dict[str, object]:
        return self.score.identity()


def _pixel_count(picture: Item) -> int:
    return int(picture.shape[0] * picture.shape[1])
