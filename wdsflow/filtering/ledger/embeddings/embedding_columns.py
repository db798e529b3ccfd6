"""The columns of embeddings in a ledger, and their metadata."""

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from wdsflow.filtering.recipe.recipe_identity import canonical
from wdsflow.filtering.where.language.values import Call
from wdsflow.stages.scores.base import Score
from wdsflow.stages.scores.model.models.clip.clip_score import ClipScore
from wdsflow.stages.scores.model.models.embedded import Embedded

_MORE = " more"


class EmbeddingColumn(NamedTuple):
    """A column: ``name`` has the first embedding of each sample, ``more`` the others of a sample that has several."""

    name: str
    embedded: Embedded
    size: int  # numbers of an embedding

    @property
    def more(self) -> str:
        """The name of the column with further embeddings."""
        return f"{self.name}{_MORE}"

    def about(self) -> dict[str, Any]:
        """Return the metadata: the model with hashes and versions, and its facts for decoders."""
        model = self.embedded.model
        about = {
            "column": self.name,
            "more": self.more,
            "of": self.embedded.of,
            "settings": dict(self.embedded.settings),
            "dtype": "float16",
            "size": self.size,
            "model": model.identity(),
            "facts": model.facts(),
        }
        found: dict[str, Any] = json.loads(canonical(about))
        return found


def column_name(embedded: Embedded) -> str:
    """Return the name of a column, written like a score: ``image_embedding(model="ViT-B-32", pretrained="openai")``."""
    return str(Call(f"{embedded.of}_embedding", embedded.settings))


def columns_of(scores: Iterable[Score]) -> tuple[EmbeddingColumn, ...]:
    """Return the columns of the embeddings that scores need."""
    asked = dict.fromkeys(each for score in scores if isinstance(score, ClipScore) for each in score.embedded())
    return tuple(EmbeddingColumn(column_name(each), each, each.model.size()) for each in asked)
