"""The models at a location, kept by a worker process for all its shards."""

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol

from wdsflow.memory.batching.device_names import choose_devices
from wdsflow.stages.scores.model.model import Model

from .loaded import LoadedModels, PreparedModels
from .model_costs import ModelCost, costs_of, device_and_name
from .model_location import ModelLocation
from .processes import ModelProcesses
from .remote_models import RemoteModels


class Models(Protocol):
    """Runs models on items.

    ``in_other_process``: which may die without this one. ``window``: see ModelLocation.
    """

    in_other_process: bool
    window: int

    def prepare(self, models: Sequence[Model]) -> PreparedModels:
        """Load models and try the largest item of each. Raises ModelError."""

    def map(self, model: Model, items: Sequence[Any]) -> list[Any]:
        """Return an output or a Failure for each item, in order. Raises ModelError."""


def models_at(location: ModelLocation) -> Models:
    """Return what runs models at a location.

    A worker process keeps it for all its shards. Raises ModelError.
    """
    if location.models_to_start is not None:
        processes = _started_processes(location, location.models_to_start, os.getpid())
        return models_at(processes.location)
    for model, facts in location.facts:
        model.accept_facts(facts)
    return _models_at(location, os.getpid())


def costs_here(location: ModelLocation, models: Mapping[str, Model]) -> list[ModelCost]:
    """Return what models took in this process since the last call.

    ``models``: by the digests of their identities.
    """
    loaded = models_at(location)
    if not isinstance(loaded, LoadedModels):
        return []
    times = loaded.model_times
    loaded.model_times = {}
    return costs_of(models, device_and_name(loaded.device), times)


@lru_cache(maxsize=1)
def _started_processes(
    location: ModelLocation, models: tuple[Model, ...], _process: int
) -> ModelProcesses:
    processes = ModelProcesses(choose_devices(location.device)[0], location.memory)
    try:
        processes.prepare(models)
    except BaseException:
        processes.__exit__(None, None, None)
        raise
    return processes


# A fork has other connections: the process is a part of the key.
@lru_cache(maxsize=16)
def _models_at(location: ModelLocation, _process: int) -> Models:
    if location.addresses:
        return RemoteModels(location.addresses, location.key, location.window)
    return LoadedModels(choose_devices(location.device)[0], location.memory)
