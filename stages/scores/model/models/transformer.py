"""What models of transformers have in common."""

from dataclasses import dataclass
from typing import Any, ClassVar

from ..model_score import Item, Model, ModelSource, Precision
from .clip.clip_weights import local_path, source_of
from .model_fact import ModelFact
from .model_hub import load_model
from .model_texts import longest


@dataclass(frozen=True, kw_only=True)
class TransformerModel(Model):
    """A model of transformers: ``model`` is "org/name", "org/name@revision" or a folder."""

    packages: ClassVar[tuple[str, ...]] = ("torch", "transformers", "tokenizers")
    loads: ClassVar[str]  # transformers' class
    facts_shared: ClassVar[tuple[ModelFact[Any], ...]] = ()  # what decoders have to know of it

    model: str
    precision: Precision = "fp32"

    def load(self, device: str) -> Any:
        """Return the model."""
        return load_model(self.loads, self.model, self.precision, device)

    def called(self) -> str:
        """Return what people know it by."""
        return f"{self.kind}, {self.model!r}"

    def fetched(self) -> ModelSource | None:
        """Return its repository."""
        if local_path(self.model) is not None:
            return None
        name, _at, revision = self.model.partition("@")
        return ModelSource(name, revision, "model='./FOLDER'")

    def facts(self) -> tuple[Any, ...]:
        """Return what decoders have to know."""
        return tuple(fact(self.model) for fact in self.facts_shared)

    def recall(self, facts: tuple[Any, ...]) -> None:
        """Keep it."""
        for fact, known in zip(self.facts_shared, facts, strict=True):
            fact.share(known, self.model)

    def identity(self) -> dict[str, Any]:
        """Return what decides outputs; folders by their contents."""
        identity = super().identity()
        identity["settings"]["model"] = source_of(self.model)
        return identity


@dataclass(frozen=True, kw_only=True)
class TokenModel(TransformerModel):
    """A model of transformers whose items are the token ids of a text, int32."""

    max_tokens: int = 512

    def cost(self, item: Item) -> int:
        """Return the tokens."""
        return len(item)

    def largest(self) -> Item:
        """Return a text of as many tokens as there may be."""
        import numpy as np

        return np.ones(longest(self.model, self.max_tokens), np.int32)
