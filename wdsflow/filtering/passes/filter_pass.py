"""One pass over shards: its input, its output folder, and the ledgers that it uses."""

from collections.abc import Callable
from dataclasses import dataclass, field

from wdsflow import version
from wdsflow.engines.cluster import Cluster
from wdsflow.filtering.deciding.plan import FilterPlan, plan_of
from wdsflow.filtering.deciding.stored_scores import is_complete
from wdsflow.filtering.joined_samples import JoinedSamples
from wdsflow.filtering.ledger.embeddings import Reuse
from wdsflow.filtering.recipe.recipe import Recipe, digest, recipe_to_record
from wdsflow.filtering.run_options import RunOptions
from wdsflow.filtering.run_report import RunReport
from wdsflow.joining.recorded_join import OPTIONS, options_to_record
from wdsflow.records.run_folder import Layout, quarantine_option
from wdsflow.shards.shard import Shard

# Index among the shards of the run, url, and name of the output.
NumberedShard = tuple[int, Shard, str]


@dataclass
class Pass:
    """One pass over the shards of a run.

    Of two passes, the first computes scores, and the second decides.

    Attributes:
        kind: "filter" or "measure".
        urls: the shards of the run.
        names: the names of their outputs.
        layout: the output folder.
        recipe: the recipe, in its canonical form.
        options: how the run works.
        tars: False: only ledgers are written.
        scores_from: ledgers whose values decide. Samples are read only for values that these lack.
        computes_missing: whether the ledgers of ``scores_from`` may lack some values.
        reused: ledgers of another run, whose values are used by a pass that reads all samples.
        main_layout: the output folder of the run, if this is its first pass. Its ledgers may have
            some of the values.
        embeddings_from: ledgers whose embeddings are used.
        compares: values of scores that compare all samples are read from the folder.
        sources: further inputs of the result.
        join: gives samples fields of a table, None for none.
        cluster: a cluster that the caller is connected to.
        prepare: called when the folder is ready. It may set ``sources`` and fill the folder; if it
            returns False, the run ends.
        request: what the record of the run stores.
    """

    kind: str
    urls: list[Shard]
    names: list[str]
    layout: Layout
    recipe: Recipe
    options: RunOptions
    tars: bool = True
    scores_from: Layout | None = None
    computes_missing: bool = False
    reused: Layout | None = None
    main_layout: Layout | None = None
    embeddings_from: Reuse | None = None
    compares: bool = False
    sources: object = None
    join: JoinedSamples | None = None
    cluster: Cluster | None = None
    prepare: Callable[["Pass", RunReport], bool] | None = None
    request: dict[str, object] = field(init=False)

    def __post_init__(self) -> None:
        self.request = {
            "kind": self.kind,
            "wdsflow": version.__version__,
            "recipe": recipe_to_record(self.recipe),
            **self.plan.identities(),
            "urls": self.urls,
            "names": self.names,
        }
        if self.join is not None:
            self.request["join"] = self.join.identity
            self.request[OPTIONS] = options_to_record(self.join.options)
        quarantine = quarantine_option(self.layout) if self.tars else None
        if quarantine is not None:
            self.request["quarantine"] = quarantine

    @property
    def plan(self) -> FilterPlan:
        """The plan of the recipe."""
        return plan_of(self.recipe)

    @property
    def identity(self) -> str:
        """The digest by which a later run decides whether a shard is done."""
        facts = {
            "recipe": recipe_to_record(self.recipe),
            **self.plan.identities(),
            "kind": self.kind,
            "sources": self.sources,
        }
        if self.join is not None:
            facts["join"] = self.join.identity
        return digest(facts)

    @property
    def computes_scores(self) -> bool:
        """Whether any score is computed, rather than taken from ledgers."""
        return self.scores_from is None or self.computes_missing

    @property
    def reuses_complete(self) -> bool:
        """Whether the ledgers of ``reused``, if any, have their scores for all samples."""
        return self.reused is None or is_complete(self.reused, self.recipe)

    def shards(self) -> list[NumberedShard]:
        """Return the shards of this run's slice."""
        numbers = range(len(self.urls))
        shards = list(zip(numbers, self.urls, self.names, strict=True))
        return shards[self.options.index :: self.options.count]
