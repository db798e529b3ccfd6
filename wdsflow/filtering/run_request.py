"""What the caller of a run asks for, and the shards, folders and embeddings that follow from it."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

from wdsflow.filtering.deciding.plan import plan_of
from wdsflow.filtering.ledger.embeddings import Reuse, reuse_of
from wdsflow.filtering.recipe.recipe import Recipe
from wdsflow.joining.join_options import JoinOptions
from wdsflow.records.run_folder import Layout, recorded_run
from wdsflow.shards.shard import Shard
from wdsflow.shards.shard_names import output_names
from wdsflow.shards.source.base import local_folder
from wdsflow.shards.urls import expand_existing
from wdsflow.stages.scores.model.clip.clip_score import ClipScore

from .joined_samples import JoinedSamples, check_join, open_join
from .run_options import LISTING, RunOptions, say_lines
from .run_output import refuse_ledger_folder
from .run_record import RunRecord

Urls = str | Iterable[str]


@dataclass(frozen=True)
class FilterRequest:
    """The arguments of ``filter_shards`` or ``measure_shards``.

    ``out`` is a folder of this machine.
    """

    kind: Literal["filter", "measure"]
    urls: Urls
    out: Path
    recipe: Recipe
    options: RunOptions
    embeddings_from: str | os.PathLike[str] | None
    join: JoinOptions = field(default_factory=JoinOptions)

    def layout(self) -> Layout:
        """Return the output folder."""
        quarantine = self.options.quarantine
        return Layout(self.out, None if quarantine is None else local_folder(quarantine))

    def shards(self) -> "ShardsOfRun":
        """Return the shards of the urls. Raises NoShards."""
        shards = expand_existing(self.urls, allow_pipe=self.options.allow_pipe)
        return ShardsOfRun(shards, output_names(shards))

    def joined(self, urls: Sequence[Shard]) -> JoinedSamples | None:
        """Return the table that is joined, which fits the shards; None without one.

        Raises UnpairedJoin, TableError, JoinMismatch; Differs if the output folder holds a run with
        another table.
        """
        options = self.options
        if self.join.join is not None and options.engine == "ray" and self.join.join_cache is None:
            raise ValueError(
                "the nodes of a cluster need the index of the table: name a folder for it that all of them see (--join-cache)"
            )
        join = open_join(self.join, urls)
        self._refuse_other_join(join)
        if join is not None:
            begin = None
            if options.begin is not None:
                begin = partial(_begin_listing, options.begin)
            line = check_join(join, urls, allow_pipe=options.allow_pipe, begin=begin)
            say_lines(options, filter(None, [line]))
        return join

    def _refuse_other_join(self, join: JoinedSamples | None) -> None:
        """Raise Differs if the output folder was written with another table.

        This happens before all shards are listed, and before anything is said of a run that is
        refused.
        """
        layout = self.layout()
        is_same_kind = recorded_run(layout.run_file).get("kind") == self.kind
        if is_same_kind and not (self.options.restart or self.options.dry_run):
            record = RunRecord(layout, self.kind)
            record.read()
            record.refuse_other_join(join)

    def embeddings(self, recipe: Recipe, layout: Layout, names: list[str]) -> Reuse | None:
        """Return the reusable embeddings of an earlier run.

        None without such a run. Raises LedgerError, and ValueError if no embeddings could be
        stored.

        Args:
            recipe: the recipe, completed.
            layout: the output folder.
            names: of the outputs.
        """
        plan = plan_of(recipe)
        has_clip = any(isinstance(score, ClipScore) for score in plan.scores.values())
        if recipe.embeddings and not has_clip:
            raise ValueError(
                "--embeddings stores the embeddings of CLIP scores: add clip_similarity, zero_shot or aesthetic"
            )
        if self.embeddings_from is None:
            return None
        refuse_ledger_folder(self.embeddings_from, layout, "--embeddings-from")
        reuse = reuse_of(
            self.embeddings_from,
            names,
            plan.models,
            recipe.stages,
            drops_unmatched=self.join.join_drop_unmatched,
        )
        say_lines(self.options, [f"{line}: computed again" for line in reuse.missing])
        return reuse


def _begin_listing(
    begin: Callable[[int, str], Callable[[object], object] | None], shards: int
) -> Callable[[object], object] | None:
    return begin(shards, LISTING)


class ShardsOfRun(NamedTuple):
    """The shards of a run, and the names of their outputs."""

    urls: list[Shard]
    names: list[str]
