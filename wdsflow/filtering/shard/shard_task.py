"""One shard to work on, as a value."""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from wdsflow.filtering.folder.layout import Layout
from wdsflow.filtering.recipe.recipe import Recipe
from wdsflow.models.model_place import ModelPlace

if TYPE_CHECKING:
    from wdsflow.filtering.ledger.embeddings.embedding_reuse import Reuse


@dataclass(frozen=True)
class ShardTask:
    """One shard to work on. Picklable: workers get it, on this machine or another."""

    shard: int  # its place among all shards of the run
    url: str
    name: str  # of the output
    recipe: Recipe
    layout: Layout
    identity: str = ""  # digest of recipe, scores and their versions, for the manifest
    about: dict[str, Any] = field(default_factory=dict)  # for the ledger's metadata
    tars: bool = True  # False: the ledger only
    write: bool = True  # False: nothing at all
    budget: int = 1 << 30  # bytes that decoding one image may take
    allow_pipe: bool = False
    scored: Layout | None = None  # where a ledger of this shard lies that has all values; no sample is read then
    embedded: "Reuse | None" = None  # where a ledger of this shard lies whose embeddings are used
    compares: bool = False  # the folder has the values of scores that compare all samples
    models: ModelPlace = field(default_factory=ModelPlace)  # where scores' models run
    aside: frozenset[int] = frozenset()  # samples that killed who touched them

    def without(self, sample: int) -> "ShardTask":
        """Return the same task with a sample put aside."""
        return replace(self, aside=self.aside | {sample})
