"""Base classes of models of transformers and of their scores."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from wdsflow.memory.precision import UsedPrecision

from ..model import Item, Loaded, Model, ModelSource
from ..model_fact import ModelFact
from ..model_files import local_path, source_of
from ..model_score import ModelScore
from .captions import token_limit
from .loading import load_model


@dataclass(frozen=True, kw_only=True)
class TransformerModel(Model, packages=("torch", "transformers", "tokenizers")):
    """A model of transformers: ``model`` is "org/name", "org/name@revision" or a folder."""

    # transformers' class.
    loads: ClassVar[str]
    # Facts about the model that decoders need.
    facts_shared: ClassVar[tuple[ModelFact[Any], ...]] = ()

    model: str
    precision: UsedPrecision = "fp32"

    def load(self, device: str) -> Loaded:
        return load_model(self.loads, self.model, self.precision, device)

    def display_name(self) -> str:
        return f"{self.kind}, {self.model!r}"

    def download_source(self) -> ModelSource | None:
        if local_path(self.model) is not None:
            return None
        name, _at, revision = self.model.partition("@")
        return ModelSource(name, revision, "model='./FOLDER'")

    def facts(self) -> tuple[object, ...]:
        return tuple(fact(self.model) for fact in self.facts_shared)

    def accept_facts(self, facts: tuple[object, ...]) -> None:
        for fact, value in zip(self.facts_shared, facts, strict=True):
            fact.share(value, self.model)

    def identity(self) -> dict[str, object]:
        settings = {**vars(self), "model": source_of(self.model)}
        return {**super().identity(), "settings": settings}


@dataclass(frozen=True, kw_only=True)
class TokenModel(TransformerModel):
    """A model of transformers whose items are the token ids of a text, int32 (tokens)."""

    max_tokens: int = 512

    def cost(self, item: Item) -> int:
        return len(item)

    def largest(self) -> Item:
        import numpy as np

        return np.ones(token_limit(self.model, self.max_tokens), np.int32)


class TransformerScore(ModelScore, needs=("transformers",), packages=("transformers", "torch")):
    """A score by a model of transformers, which its setting ``model`` names."""

    model: str

    @abstractmethod
    def main_model(self) -> TransformerModel: ...

    def settings(self) -> dict[str, object]:
        return {**super().settings(), "model": source_of(self.main_model().model)}
