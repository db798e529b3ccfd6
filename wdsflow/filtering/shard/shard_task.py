"""The task of one shard, as it is sent to a worker."""

from dataclasses import dataclass, field, replace

from wdsflow.filtering.joined_samples import JoinedSamples, digest_of
from wdsflow.filtering.ledger.embeddings import Reuse
from wdsflow.filtering.recipe.recipe import Recipe
from wdsflow.models.model_location import ModelLocation
from wdsflow.records.run_folder import Layout
from wdsflow.shards.shard import Shard
from wdsflow.shards.shard_identity import joined_identity


@dataclass(frozen=True)
class ShardTask:
    """The task of one shard. Picklable, for workers on this machine or another.

    Attributes:
        shard: index of the shard among all shards of the run.
        url: the shard.
        name: name of the output.
        recipe: the recipe.
        layout: the output folder.
        identity: digest of recipe, scores and their versions, for the manifest.
        metadata: how scores are computed, for the metadata of the ledger.
        tars: False: only the ledger is written.
        write: False: nothing is written.
        budget: bytes that decoding one image may take.
        allow_pipe: whether the shard may be a command.
        join: gives samples fields of a table, None for none.
        scores_from: a folder with a ledger of this shard, whose scores decide. Only samples that
            need
            a score that it lacks are read.
        earlier: a folder with a ledger of this shard that has some of the values. All samples are
            read.
        earlier_for_all: the ledger of ``earlier`` has its scores for all samples, not only for
            those that needed them.
        embeddings_from: ledgers whose embeddings are used.
        compares: the output folder has the values of scores that compare all samples.
        models: where the models of scores run.
        excluded: samples that killed their process.
    """

    shard: int
    url: Shard
    name: str
    recipe: Recipe
    layout: Layout
    identity: str = ""
    metadata: dict[str, object] = field(default_factory=dict)
    tars: bool = True
    write: bool = True
    budget: int = 1 << 30
    allow_pipe: bool = False
    join: JoinedSamples | None = None
    scores_from: Layout | None = None
    earlier: Layout | None = None
    earlier_for_all: bool = True
    embeddings_from: Reuse | None = None
    compares: bool = False
    models: ModelLocation = field(default_factory=ModelLocation)
    excluded: frozenset[int] = frozenset()

    def input_identity(self) -> dict[str, object]:
        """Return the identity of the input: the shard and the joined table, if any.

        Raises SourceError.
        """
        return joined_identity(self.url, digest_of(self.join, self.url))

    def without(self, sample: int) -> "ShardTask":
        """Return the same task with a quarantined sample."""
        return replace(self, excluded=self.excluded | {sample})
