"""Asking for models, wherever they run."""

import os
import pickle
import time
from collections.abc import Collection, Sequence
from functools import lru_cache
from multiprocessing.connection import Client, Connection
from typing import Any, Protocol

from wdsflow.memory.batching.outcome import POISONED, Failure, PoisonedError
from wdsflow.memory.batching.restarts import map_with_restarts
from wdsflow.models.place import ModelError, ModelPlace
from wdsflow.models.server import Ask
from wdsflow.stages.scores.model import Model

_PATIENCE = 120.0  # seconds that a process has to come back


class Models(Protocol):
    """Runs models on items."""

    def prepare(self, models: Sequence[Model]) -> list[str]:
        """Load models and try the largest item of each; return a line about each. Raises ModelError."""

    def map(self, model: Model, items: Sequence[Any]) -> list[Any]:
        """Return an output or a Failure for each item, in order. Raises ModelError."""


class _Gone(Exception):
    """The process that was asked ended before it answered."""


class RemoteModels:
    """Asks the process at an address; one that is replaced meanwhile is asked again."""

    def __init__(self, address: str, key: bytes) -> None:
        self._address, self._key = address, key
        self._connection: Connection | None = None

    def prepare(self, models: Sequence[Model]) -> list[str]:
        """Load models and try the largest item of each. Raises ModelError."""
        try:
            found: list[str] = self._ask(Ask("prepare", (tuple(models),)))
        except _Gone:
            raise ModelError("the process that loads the models ended: is there memory for them?") from None
        return found

    def map(self, model: Model, items: Sequence[Any]) -> list[Any]:
        """Return an output or a Failure for each item, in order. Raises ModelError."""

        def call(some: Sequence[Any], alone: Collection[int]) -> list[Any]:
            return self._map(model, some, alone)

        try:
            return map_with_restarts(call, items, lambda: None)
        except PoisonedError as error:
            raise ModelError(f"{model.kind}: {error.message}") from None

    def _map(self, model: Model, items: Sequence[Any], alone: Collection[int]) -> list[Any]:
        """Ask for all items at once but those to be run alone, which come last and one by one."""
        found: dict[int, Any] = {}
        together = [at for at in range(len(items)) if at not in alone]
        for group in ([together] if together else []) + [[at] for at in sorted(alone)]:
            try:
                outputs = self._ask(Ask("map", (model, [items[at] for at in group], [0] if group[0] in alone else [])))
            except _Gone as gone:
                if group[0] in alone:
                    found[group[0]] = Failure(POISONED, str(gone))
                    continue
                raise PoisonedError(str(gone), found, tuple(group)) from None
            except PoisonedError as error:
                done = {group[at]: output for at, output in error.done.items()}
                raise PoisonedError(
                    error.message, {**found, **done}, tuple(group[at] for at in error.suspects)
                ) from None
            found.update(zip(group, outputs, strict=True))
        return [found[at] for at in range(len(items))]

    def _ask(self, ask: Ask) -> Any:
        data = pickle.dumps(ask, pickle.HIGHEST_PROTOCOL)
        connection = self._connect()
        try:
            connection.send_bytes(data)
            answer = pickle.loads(connection.recv_bytes())  # noqa: S301 - from a process of this run
        except (OSError, EOFError):
            self._connection = None
            raise _Gone("the process that runs models ended while it worked on this") from None
        if isinstance(answer, PoisonedError):
            self._connection = None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _connect(self) -> Connection:
        end = time.monotonic() + _PATIENCE
        while self._connection is None:
            try:
                self._connection = Client(self._address, "AF_UNIX", authkey=self._key)
            except (OSError, EOFError):
                if time.monotonic() > end:
                    raise ModelError("the process that runs models does not answer") from None
                time.sleep(0.05)
        return self._connection


class OwnModels:
    """Runs models in this process."""

    def __init__(self, device: str, memory: str | None) -> None:
        from wdsflow.models.loaded import LoadedModels

        self._loaded = LoadedModels(device, memory)

    def prepare(self, models: Sequence[Model]) -> list[str]:
        """Load models and try the largest item of each. Raises ModelError."""
        return self._loaded.prepare(models)

    def map(self, model: Model, items: Sequence[Any]) -> list[Any]:
        """Return an output or a Failure for each item. Raises ModelError, PoisonedError: this process has to end."""
        return self._loaded.map(model, items)


def models_at(place: ModelPlace, number: int) -> Models:
    """Return what runs the models of a shard; a process keeps what it has."""
    return _models_at(place, place.address(number), os.getpid())


@lru_cache(maxsize=16)
def _models_at(place: ModelPlace, address: str | None, _: int) -> Models:
    if address is not None:
        return RemoteModels(address, place.key)
    from wdsflow.memory.batching.device import choose

    return OwnModels(choose(place.device)[0], place.memory)
