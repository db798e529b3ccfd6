"""Base class of custom scores that a model computes: load the model, score a batch."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ..base import Scalar, Value, bare
from .model_score import Item, Model, ModelScore, Output, Request
from .returned import one_each, scalar

if TYPE_CHECKING:
    from ..sample_view import View


@dataclass(frozen=True, kw_only=True)
class BatchScore(ModelScore):
    """A frozen dataclass with ``name``, ``inputs``, ``load`` and ``score``; its fields are its settings.

    ``inputs`` is the type of the items of a batch: "image" an array (height, width, 3) of uint8, RGB, as ``Picture``
    decodes it, or of full size with decode="exact"; "caption" a string; "pair" both, each caption with the sample's
    first image. If the sample has several images or captions, the value is a list.
    """

    inputs: ClassVar[Literal["image", "caption", "pair"]] = "image"

    image: str = ""
    caption: str = ""
    decode: Literal["fast", "exact"] = "fast"

    @abstractmethod
    def load(self, device: str) -> Any:
        """Return the model, on a torch device ("cpu", "cuda:1"). Called once for each device."""

    @abstractmethod
    def score(self, loaded: Any, batch: Sequence[Item]) -> Sequence[Scalar]:
        """Return a value for each item, in order; it must not depend on the others. Called in inference mode.

        A list, or an array of shape (n,) or (n, 1). An item whose value is NaN or infinite is the error "not-finite".
        """

    def cost(self, item: Item) -> int:
        """Return the size of an item before padding: pixels, characters."""
        picture, text = item if self.inputs == "pair" else (item, item)
        pixels = 0 if self.inputs == "caption" else int(picture.shape[0] * picture.shape[1])
        return pixels + (0 if self.inputs == "image" else len(text))

    def models(self) -> tuple[Model, ...]:
        """Return the model."""
        return (_Own(score=self),)

    def identity(self) -> dict[str, Any]:
        """Return what affects a value."""
        return {"name": self.name, "revision": self.revision, "settings": self.settings(), "versions": self.versions()}

    def requests(self, view: "View") -> list[Request]:
        """Return a request for each image or caption. Raises ScoreError."""
        model = _Own(score=self)
        if self.inputs == "caption":
            return [Request(model, text, partial(str, text)) for text in view.captions(self.caption)]
        names = view.image_names(self.image)
        if self.inputs == "image":
            return [Request(model, name, partial(self._pixels, view, at)) for at, name in enumerate(names)]
        return [Request(model, text, partial(self._pair, view, text)) for text in view.captions(self.caption)]

    def value(self, view: "View", outputs: Sequence[Output]) -> Value:
        """Return the outputs. Raises ScoreError "not-finite", TypeError if one is no single value."""
        return bare([scalar(output, self.kind, "score()") for output in outputs])

    def _pixels(self, view: "View", at: int) -> Any:
        if self.decode == "fast":
            return view.pictures(self.image)[at].pixels
        from .models.prepare import full_size

        return view.prepared(view.image_names(self.image)[at], full_size)

    def _pair(self, view: "View", text: str) -> Any:
        return self._pixels(view, 0), text


@dataclass(frozen=True, kw_only=True)
class _Own(Model):
    """A score as its own model."""

    kind: ClassVar[str] = "custom score"

    score: BatchScore

    def load(self, device: str) -> Any:
        return self.score.load(device)

    def called(self) -> str:
        return self.score.name

    def run(self, loaded: Any, batch: Sequence[Item]) -> Sequence[Output]:
        return one_each(self.score.score(loaded, batch), len(batch))

    def cost(self, item: Item) -> int:
        return self.score.cost(item)

    def identity(self) -> dict[str, Any]:
        return self.score.identity()
