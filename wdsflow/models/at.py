"""Who runs the models of a shard: a process that is there, one of this worker's own, or this process."""

import os
from collections.abc import Sequence
from functools import lru_cache

from wdsflow.memory.batching.device import choose
from wdsflow.models.client import Models, RemoteModels
from wdsflow.models.loaded import LoadedModels
from wdsflow.models.processes import ModelProcesses
from wdsflow.stages.scores.model.model_score import Model

from .model_place import ModelPlace


def models_at(place: ModelPlace, number: int, models: Sequence[Model]) -> Models:
    """Return what runs the models of a shard; a process keeps what it has. Raises ModelError.

    A worker that has none to ask starts a process for them, which is replaced where its device is lost or it dies.
    """
    if place.apart:
        processes = _started(place, tuple(models), os.getpid())
        return models_at(processes.place, number, models)
    for model, facts in place.facts:
        model.recall(facts)
    return _models_at(place, place.address(number), os.getpid())


@lru_cache(maxsize=1)
def _started(place: ModelPlace, models: tuple[Model, ...], _: int) -> ModelProcesses:
    processes = ModelProcesses(choose(place.device)[0], place.memory)
    try:
        processes.prepare(models)
    except BaseException:
        processes.__exit__(None, None, None)
        raise
    return processes


@lru_cache(maxsize=16)
def _models_at(place: ModelPlace, address: str | None, _: int) -> Models:
    if address is not None:
        return RemoteModels(address, place.key)
    return LoadedModels(choose(place.device)[0], place.memory)
