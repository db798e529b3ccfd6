"""Scores of a user's own that fail, in all places where a user's code runs."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

from wdsflow.stages.scores import BatchScore, Score
from wdsflow.stages.scores.model.model import Model
from wdsflow.stages.scores.model.model_score import ModelScore, Request


@dataclass(frozen=True, kw_only=True)
class Lengths(Model):
    """The length of a text."""

    kind: ClassVar[str] = "lengths"
    packages: ClassVar[tuple[str, ...]] = ()

    def load(self, device: str) -> Any:
        """Load nothing."""

    def run(self, loaded: Any, batch: Sequence[Any]) -> Sequence[int]:
        """Measure."""
        return [len(text) for text in batch]


@dataclass(frozen=True, kw_only=True)
class Faulty(ModelScore):
    """The length of a caption; fails for captions that contain ``word``.

    ``at``: the point where it fails. An empty word is in all captions.
    """

    name: ClassVar[str] = "faulty"

    at: str = "value"
    word: str = "bad"

    def requests(self, view: Any) -> list[Request]:
        """Ask for the length."""
        text = view.captions()[0]
        if self.word in text and self.at == "requests":
            raise KeyError("caption")
        return [Request(Lengths(), text, lambda: self._made(text))]

    def _made(self, text: str) -> str:
        if self.word in text and self.at == "make":
            raise IndexError("no such word")
        return text

    def value(self, view: Any, outputs: Sequence[Any]) -> Any:
        """Return it, or something else."""
        if self.word in view.captions()[0]:
            if self.at == "value":
                raise ValueError("what a\ncaption")
            if self.at == "import":
                import_module("a_module_that_is_not_there")
            if self.at == "other type":
                return {"length": 3}
            if self.at == "large":
                return 10**400
            if self.at == "exit":
                sys.exit("usage: faulty")
        return outputs[0]

    def models(self) -> tuple[Model, ...]:
        """Return the model."""
        return (Lengths(),)


@dataclass(frozen=True, kw_only=True)
class FaultyBatch(BatchScore):
    """The length of a caption, as an array of a non-Python type.

    Fails for captions that contain ``word``.
    """

    name: ClassVar[str] = "faulty_batch"
    inputs: ClassVar[Any] = "caption"

    word: str = "bad"

    def load(self, device: str) -> Any:
        """Load nothing."""

    def score(self, loaded: Any, batch: Sequence[Any]) -> Any:
        """Measure."""
        import numpy as np

        if any(self.word in text for text in batch):
            raise ValueError("a bad caption is among these")
        return np.array([len(text) for text in batch], np.float32)


@dataclass(frozen=True, kw_only=True)
class FaultyPlain(Score):
    """The length of a caption, without a model."""

    name: ClassVar[str] = "faulty_plain"
    tier: ClassVar[Any] = "text"

    word: str = "bad"
    at: str = "score"

    def score(self, view: Any) -> Any:
        """Measure."""
        text = view.captions()[0]
        if self.word in text:
            if self.at == "other type":
                return object()
            raise ZeroDivisionError("division by zero")
        import numpy as np

        return np.float32(len(text))
