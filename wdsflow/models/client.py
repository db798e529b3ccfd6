"""Asking for models, wherever they run."""

import os
import pickle
import socket
import time
from collections.abc import Collection, Sequence
from multiprocessing.connection import Client
from typing import Any, Protocol

from wdsflow.memory.batching.outcome import POISONED, Failure, PoisonedError
from wdsflow.memory.batching.restarts import map_with_restarts
from wdsflow.models.messages import receive, send
from wdsflow.models.place import ModelError, Prepared
from wdsflow.models.server import Ask, NotBegun
from wdsflow.stages.scores.model import Model

_PATIENCE = 120.0  # seconds that a process has to come back


class Models(Protocol):
    """Runs models on items. ``apart``: in another process, which may die without this one."""

    apart: bool

    def prepare(self, models: Sequence[Model]) -> Prepared:
        """Load models and try the largest item of each. Raises ModelError."""

    def map(self, model: Model, items: Sequence[Any]) -> list[Any]:
        """Return an output or a Failure for each item, in order. Raises ModelError."""


class _Gone(Exception):
    """The process that was asked ended before it answered."""


class RemoteModels:
    """Asks the process at an address; one that is replaced meanwhile is asked again. For one thread at a time."""

    apart = True

    def __init__(self, address: str, key: bytes) -> None:
        self._address, self._key = address, key
        self._connection: socket.socket | None = None

    def prepare(self, models: Sequence[Model]) -> Prepared:
        """Load models and try the largest item of each. Raises ModelError."""
        try:
            found: Prepared = self._ask(Ask("prepare", (tuple(models),)))
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

    def close(self) -> None:
        """Hang up."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

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
        connection = self._connect()
        try:
            send(connection, ask)
            answer = receive(connection)
        except (TypeError, AttributeError, pickle.PicklingError) as error:
            self.close()
            raise ModelError(f"what a score asks a model for cannot be sent: {error}") from None
        except (OSError, EOFError):
            self.close()
            raise _Gone("the process that runs models ended while it worked on this") from None
        if isinstance(answer, (PoisonedError, NotBegun)):
            self.close()
        if isinstance(answer, NotBegun):
            return self._ask(ask)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def __del__(self) -> None:
        self.close()

    def _connect(self) -> socket.socket:
        end = time.monotonic() + _PATIENCE
        while self._connection is None:
            try:
                with Client(self._address, "AF_UNIX", authkey=self._key) as connection:
                    self._connection = socket.socket(fileno=os.dup(connection.fileno()))
            except (OSError, EOFError):
                if time.monotonic() > end:
                    raise ModelError("the process that runs models does not answer") from None
                time.sleep(0.05)
        return self._connection


class OwnModels:
    """Runs models in this process."""

    apart = False

    def __init__(self, device: str, memory: str | None) -> None:
        from wdsflow.models.loaded import LoadedModels

        self._loaded = LoadedModels(device, memory)

    def prepare(self, models: Sequence[Model]) -> Prepared:
        """Load models and try the largest item of each. Raises ModelError."""
        return self._loaded.prepare(models)

    def map(self, model: Model, items: Sequence[Any]) -> list[Any]:
        """Return an output or a Failure for each item. Raises ModelError, PoisonedError: this process has to end."""
        return self._loaded.map(model, items)
