"""The tasks of a pass: one for each shard that is not done."""

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from wdsflow.filtering.deciding.plan import plan_of
from wdsflow.filtering.extendable_ledgers import scores_of
from wdsflow.filtering.joined_samples import digest_of
from wdsflow.filtering.ledger.ledger_metadata import read_metadata
from wdsflow.filtering.recipe.recipe import Recipe, canonical_json, recipe_to_record
from wdsflow.filtering.run_record import RunRecord
from wdsflow.filtering.run_report import RunReport
from wdsflow.filtering.shard.shard_task import ShardTask
from wdsflow.memory.sizes import parse_size
from wdsflow.models.model_location import ModelLocation
from wdsflow.records.run_folder import Layout

from .filter_pass import NumberedShard, Pass


class RemainingShards(NamedTuple):
    """The shards that are not done.

    ``earlier``: by their names, folders with ledgers that have some of their values.
    """

    shards: list[NumberedShard]
    earlier: Mapping[str, Layout]


def remaining_shards(pass_: Pass, record: RunRecord, report: RunReport) -> RemainingShards:
    """Return the shards that are not done. Those that are done are added to the report."""
    record.identity = pass_.identity
    record.state.update(identity=pass_.identity)
    request = json.loads(canonical_json(pass_.request))
    join = partial(digest_of, pass_.join)
    done, fewer, changed = record.finished(pass_.shards(), request, join)
    report.records = list(done.values())
    report.resumed = len(done)
    report.changed += changed
    shards = [shard for shard in pass_.shards() if shard[2] not in done]
    earlier = dict.fromkeys(fewer, pass_.layout)
    if pass_.main_layout is not None:
        others = [shard for shard in shards if shard[2] not in earlier]
        main = RunRecord(pass_.main_layout, pass_.kind)
        in_main = main.finished(others, request, join).fewer
        earlier |= dict.fromkeys(in_main, pass_.main_layout)
    if pass_.reused is not None:
        for _, _, name in shards:
            if name not in earlier and pass_.reused.ledger(name).is_file():
                earlier[name] = pass_.reused
    return RemainingShards(shards, earlier)


def shard_tasks(pass_: Pass, remaining: RemainingShards, models: ModelLocation) -> list[ShardTask]:
    """Return a task for each remaining shard."""
    budget = parse_size(pass_.recipe.image_memory)
    identity = pass_.identity
    is_complete = pass_.reuses_complete
    tasks = []
    for number, url, name in remaining.shards:
        earlier = remaining.earlier.get(name)
        recipe = _recipe_of(pass_, name, earlier)
        task = ShardTask(
            number,
            url,
            name,
            recipe,
            pass_.layout,
            identity=identity,
            metadata=_metadata(pass_, recipe),
            tars=pass_.tars,
            write=not pass_.options.dry_run,
            budget=budget,
            allow_pipe=pass_.options.allow_pipe,
            join=None if pass_.join is None else pass_.join.for_shard(url),
            scores_from=pass_.scores_from,
            earlier=earlier,
            earlier_for_all=is_complete or earlier != pass_.reused,
            embeddings_from=pass_.embeddings_from,
            compares=pass_.compares,
            models=models,
        )
        tasks.append(task)
    return tasks


def _recipe_of(pass_: Pass, name: str, earlier: Layout | None) -> Recipe:
    """Return the recipe of a shard.

    Its ledger keeps the scores that it has, also those that are not requested now.
    """
    if earlier != pass_.layout:
        return pass_.recipe
    stored = scores_of(read_metadata(pass_.layout.ledger(name)))
    if set(stored) <= set(pass_.recipe.scores):
        return pass_.recipe
    return replace(pass_.recipe, scores=tuple(dict.fromkeys([*stored, *pass_.recipe.scores])))


def _metadata(pass_: Pass, recipe: Recipe) -> dict[str, object]:
    """Return the metadata of a ledger: how its scores are computed."""
    identities = plan_of(recipe).identities()
    plain = {
        "wdsflow": pass_.request["wdsflow"],
        "recipe": recipe_to_record(recipe),
        "view": identities["view"],
        "identities": identities["scores"],
    }
    metadata: dict[str, object] = json.loads(canonical_json(plain))
    if pass_.embeddings_from is not None:
        metadata["embedded"] = pass_.embeddings_from.digest
    return metadata
