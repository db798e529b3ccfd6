"""Asking for models, wherever they run."""

import os
import pickle
import socket
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from multiprocessing.connection import Client
from typing import Any, Protocol

from wdsflow.memory.batching.outcome import POISONED, Failure, PoisonedError
from wdsflow.memory.batching.restarts import map_with_restarts
from wdsflow.models.messages import receive, send
from wdsflow.models.place import ModelError, Prepared
from wdsflow.models.server import Ask, Begun, NotBegun, ended_mark
from wdsflow.stages.scores.model import Model

_PATIENCE = 120.0  # seconds that a process has to come back
_MOST_TRIES = 100  # of a request that no process begins with


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
        for _ in range(2):  # one may have been killed by others
            with suppress(_Gone):
                found: Prepared = self._ask(Ask("prepare", (tuple(models),)))
                return found
        raise ModelError("the process that loads the models ended, twice: is there memory for them?")

    def map(self, model: Model, items: Sequence[Any]) -> list[Any]:
        """Return an output or a Failure for each item, in order. Raises ModelError."""

        def call(some: Sequence[Any], alone: Collection[int]) -> list[Any]:
            return self._map(model, some, alone)

        try:
            return map_with_restarts(call, items, lambda: None)
        except PoisonedError as error:
            raise ModelError(f"{model.called()}: {error.message}") from None

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
            some, by_itself = [items[at] for at in group], group[0] in alone
            try:
                outputs = self._twice(model, some) if by_itself else self._ask(Ask("map", (model, some, [])))
            except _Gone as gone:
                raise PoisonedError(str(gone), found, tuple(group)) from None
            except PoisonedError as error:
                done = {group[at]: output for at, output in error.done.items()}
                raise PoisonedError(
                    error.message, {**found, **done}, tuple(group[at] for at in error.suspects)
                ) from None
            found.update(zip(group, outputs, strict=True))
        return [found[at] for at in range(len(items))]

    def _twice(self, model: Model, item: list[Any]) -> Any:
        """Run an item by itself; it is to blame where two processes end at it: one may have been killed by others."""
        for _ in range(2):
            try:
                return self._ask(Ask("map", (model, item, [0])))
            except _Gone as gone:
                last = str(gone)
        return [Failure(POISONED, last)]

    def _ask(self, ask: Ask) -> Any:
        """Return the answer. A process that ends before it begins with this is no matter: the next one is asked."""
        for _ in range(_MOST_TRIES):
            answer, begun = self._answer(ask)
            if begun or not isinstance(answer, _Gone):
                break
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _answer(self, ask: Ask) -> tuple[Any, bool]:
        """Return the answer, and whether work on it began."""
        connection, begun = self._connect(), False
        try:
            send(connection, ask)
            while isinstance(answer := receive(connection), Begun):
                begun = True
        except (TypeError, AttributeError, ImportError, pickle.PicklingError) as error:
            self.close()
            return ModelError(f"what a score asks a model for, or its answer, cannot be sent: {error}"), begun
        except (OSError, EOFError):
            self.close()
            return _Gone("the process that runs models ended while it worked on this"), begun
        if isinstance(answer, (PoisonedError, NotBegun)):
            self.close()
        return (_Gone("no process began with this"), False) if isinstance(answer, NotBegun) else (answer, begun)

    def __del__(self) -> None:
        self.close()

    def _connect(self) -> socket.socket:
        end = time.monotonic() + _PATIENCE
        while self._connection is None:
            try:
                with Client(self._address, "AF_UNIX", authkey=self._key) as connection:
                    self._connection = socket.socket(fileno=os.dup(connection.fileno()))
            except (OSError, EOFError):
                if ended_mark(self._address).exists():
                    raise ModelError("the process that runs models ended again and again without an output") from None
                if time.monotonic() > end:
                    raise ModelError("the process that runs models does not answer") from None
                time.sleep(0.05)
        return self._connection


class OwnModels:
    """Runs models in this process."""

    apart = False

    def __init__(self, device: str, memory: str | None) -> None:
        from wdsflow.memory.batching.device import check_cap
        from wdsflow.models.loaded import LoadedModels

        try:
            check_cap(device, memory)
        except ValueError as error:
            raise ModelError(str(error)) from None
        self._loaded = LoadedModels(device, memory)

    def prepare(self, models: Sequence[Model]) -> Prepared:
        """Load models and try the largest item of each. Raises ModelError."""
        return self._loaded.prepare(models)

    def map(self, model: Model, items: Sequence[Any]) -> list[Any]:
        """Return an output or a Failure for each item. Raises ModelError, PoisonedError: this process has to end."""
        return self._loaded.map(model, items)
