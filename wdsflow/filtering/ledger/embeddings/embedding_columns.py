"""The columns of embeddings in a ledger, and their metadata."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from wdsflow.filtering.recipe.recipe_identity import canonical
from wdsflow.filtering.where import Call
from wdsflow.stages.scores.base import Score
from wdsflow.stages.scores.model.models.clip.clip_score import ClipScore
from wdsflow.stages.scores.model.models.embedded import Embedded

if TYPE_CHECKING:
    import pyarrow as pa

    from wdsflow.filtering.ledger.ledger_row import Row

GROUP = 2048  # rows that are written together, and read together: 4 MiB of 1,024 numbers each
KEYS = "embedded"  # the column with the source of each embedding
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


class Vectors(Protocol):
    """The source of a shard's embeddings when its ledger is written."""

    def about(self) -> list[dict[str, Any]]:
        """Return the metadata of each column."""

    def groups(self, rows: "Sequence[Row]") -> "Iterator[dict[str, pa.Array]]":
        """Yield the columns for 2,048 rows at a time, in order; for no rows once."""


def column_name(embedded: Embedded) -> str:
    """Return the name of a column, written like a score: ``image_embedding(model="ViT-B-32", pretrained="openai")``."""
    return str(Call(f"{embedded.of}_embedding", embedded.settings))


def columns_of(scores: Iterable[Score]) -> tuple[EmbeddingColumn, ...]:
    """Return the columns of the embeddings that scores need."""
    asked = dict.fromkeys(each for score in scores if isinstance(score, ClipScore) for each in score.embedded())
    return tuple(EmbeddingColumn(column_name(each), each, each.model.size()) for each in asked)


def names_of(about: Mapping[str, Any]) -> list[str]:
    """Return the columns of a ledger other than those of scores."""
    entries = about.get("embeddings", [])
    return [KEYS, *(entry[each] for entry in entries for each in ("column", "more"))] if entries else []
