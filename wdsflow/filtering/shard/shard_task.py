"""The task of one shard, as a value."""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from wdsflow.filtering.recipe.recipe import Recipe
from wdsflow.filtering.run_folder import Layout
from wdsflow.models.loaded import ModelPlace

if TYPE_CHECKING:
    from wdsflow.filtering.ledger.embeddings import Reuse


@dataclass(frozen=True)
class ShardTask:
    """The task of one shard. Picklable, for workers on this machine or another."""

    shard: int  # its index among all shards of the run
    url: str
    name: str  # of the output
    recipe: Recipe
    layout: Layout
    identity: str = ""  # digest of recipe, scores and their versions, for the manifest
    about: dict[str, object] = field(default_factory=dict)  # for the ledger's metadata
    tars: bool = True  # False: only the ledger
    write: bool = True  # False: no files
    budget: int = 1 << 30  # bytes that decoding one image may take
    allow_pipe: bool = False
    scored: Layout | None = None  # a folder with a ledger of this shard that has all values; then no sample is read
    known: Layout | None = None  # a folder with a ledger of this shard that has some of the values
    embedded: "Reuse | None" = None  # a folder with a ledger of this shard whose embeddings are used
    compares: bool = False  # the folder has the values of scores that compare all samples
    models: ModelPlace = field(default_factory=ModelPlace)  # where scores' models run
    aside: frozenset[int] = frozenset()  # samples that killed their process

    def without(self, sample: int) -> "ShardTask":
        """Return the same task with a quarantined sample."""
        return replace(self, aside=self.aside | {sample})
