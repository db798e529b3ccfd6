"""A shard that is being processed, and what all methods to process it use."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from wdsflow.engines.mark import Mark
from wdsflow.expressions.score_call import ScoreCall
from wdsflow.filtering.deciding.plan import FilterPlan
from wdsflow.filtering.ledger.embedding_lookup import ShardEmbeddings
from wdsflow.filtering.ledger.sample_table import LedgerRow, SampleTable
from wdsflow.filtering.samples.views import Views
from wdsflow.records.run_folder import ShardRecord
from wdsflow.shards.samples.tar_samples import Samples
from wdsflow.shards.source.base import Source
from wdsflow.stages.scores.sample_view import ViewOptions

from .resized_images import ResizedImages
from .score_samples import SampleScorer
from .shard_progress import ShardProgress
from .shard_task import ShardTask

# The trouble of a sample that killed its process.
KILLED = "killed-worker"


@dataclass(frozen=True)
class OpenShard:
    """A shard that is being processed.

    Attributes:
        task: the task.
        plan: the plan of its recipe.
        record: gets the results.
        source: the bytes of the tar.
        mark: gets the number of the current sample, and the progress.
        embeddings: embeddings that are used and kept.
        resized: gets the images of kept samples, None if they keep their size.
    """

    task: ShardTask
    plan: FilterPlan
    record: ShardRecord
    source: Source
    mark: Mark
    embeddings: ShardEmbeddings
    resized: ResizedImages | None

    def views(self, samples: Samples) -> Views:
        """Return what makes the views of samples, after the stages of the recipe."""
        recipe = self.task.recipe
        options = ViewOptions(images=recipe.image, captions=recipe.caption, budget=self.task.budget)
        return Views(samples, options, self.task.url, recipe.stages)

    def scorer(
        self, table: SampleTable, calls: Collection[ScoreCall], progress: ShardProgress
    ) -> SampleScorer:
        """Return what computes scores of the shard's samples into a table."""
        return SampleScorer(
            self.plan,
            table,
            calls,
            mark=self.mark,
            progress=progress,
            models=self.task.models,
            embeddings=self.embeddings,
            resized=self.resized,
        )

    def exclude(self, rows: Sequence[LedgerRow]) -> None:
        """Exclude the samples that killed their process."""
        for row in rows:
            if row.number in self.task.excluded:
                row.trouble = KILLED


@dataclass(frozen=True)
class ScoredShard:
    """The samples of a shard with the scores that decide them.

    ``computed``: the scores that were computed for that.
    """

    table: SampleTable
    computed: Collection[ScoreCall]
