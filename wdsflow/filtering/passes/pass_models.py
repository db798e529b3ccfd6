"""The models of a pass: which load before the first shard, where they run, what they take."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial

from wdsflow.expressions.score_call import ScoreCall
from wdsflow.filtering.deciding.stored_scores import missing_columns
from wdsflow.filtering.ledger.ledger_metadata import read_metadata
from wdsflow.filtering.run_options import say_lines
from wdsflow.filtering.run_record import RunRecord
from wdsflow.filtering.score_costs import models_by_digest
from wdsflow.memory.batching.device_names import choose_devices
from wdsflow.models.model_costs import ModelCost, add_costs
from wdsflow.models.model_location import ModelLocation
from wdsflow.models.models_at import costs_here, models_at
from wdsflow.models.processes import ModelProcesses
from wdsflow.stages.scores.model.model import Model

from .filter_pass import Pass
from .pass_tasks import RemainingShards

_Costs = Callable[[Mapping[str, Model]], list[ModelCost]]


def start_models(
    stack: ExitStack, pass_: Pass, remaining: RemainingShards, record: RunRecord | None
) -> ModelLocation:
    """Return where models run.

    On this machine, that is one process per device, which has loaded and tested them.

    ``stack`` ends the processes, and stores in the record what the models took.
    """
    options = pass_.options
    models = _required_models(pass_, remaining)
    first = _first_models(pass_, models)
    # A dead process is replaced without its worker.
    is_apart = options.engine != "local"
    location = ModelLocation(
        device=options.device,
        memory=options.gpu_memory,
        models_to_start=first if is_apart else None,
    )
    if not models or not pass_.computes_scores or is_apart:
        return location
    costs: _Costs
    if options.jobs == 0:
        lines = models_at(location).prepare(first).lines
        location = replace(location, devices=tuple(choose_devices(options.device)[:1]))
        costs = partial(costs_here, location)
    else:
        processes = stack.enter_context(ModelProcesses(options.device, options.gpu_memory))
        lines = processes.prepare(first)
        location = processes.location
        costs = processes.costs
    if record is not None:
        stack.callback(_store_costs, pass_, costs, record)
    say_lines(options, lines)
    return location


def _required_models(pass_: Pass, remaining: RemainingShards) -> tuple[Model, ...]:
    """Return the models of the scores that the ledgers of some remaining shard lack."""
    has_ledgers = all(name in remaining.earlier for _, _, name in remaining.shards)
    if pass_.reuses_complete and has_ledgers:
        return pass_.plan.models_of(_missing_calls(pass_, remaining))
    # A shard needs all of them.
    return pass_.plan.models


def _missing_calls(pass_: Pass, remaining: RemainingShards) -> set[ScoreCall]:
    """Return the scores that the earlier ledger of some shard lacks."""
    stored = []
    for _, _, name in remaining.shards:
        ledger = remaining.earlier[name].ledger(name)
        stored.append(set(read_metadata(ledger)["identities"]))
    common = set[str].intersection(*stored)
    return {call for call in pass_.plan.scores if str(call) not in common}


def _first_models(pass_: Pass, models: tuple[Model, ...]) -> tuple[Model, ...]:
    """Return the models that are loaded before the first shard.

    Others are loaded when a sample needs them.
    """
    if pass_.scores_from is not None:
        models = pass_.plan.models_of(missing_columns(pass_.plan, pass_.scores_from, pass_.names))
    if pass_.embeddings_from is not None:
        stored = pass_.embeddings_from.served
        models = tuple(model for model in models if model not in stored)
    return models


def _store_costs(pass_: Pass, costs: _Costs, record: RunRecord) -> None:
    """Store what models took next to the finished shards.

    A run that finished no shard leaves nothing.
    """
    if record.lines:
        # No output depends on them.
        with suppress(OSError, ValueError):
            add_costs(record.costs_path, costs(models_by_digest(pass_.plan.models)))
