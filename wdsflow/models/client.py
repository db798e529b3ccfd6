"""Asking for models, wherever they run."""

import os
import pickle
import socket
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Client
from typing import Any, Protocol

from wdsflow.memory.batching.attempt import POISONED, Failure, PoisonedError, map_with_restarts
from wdsflow.models.server import Ask, Begun, Loading, NotBegun, ended_mark
from wdsflow.stages.scores.model.model_score import Model

from .model_place import ModelError, PreparedModels
from .socket_messages import receive, send

_PATIENCE = 120.0  # seconds that a process has to come back
_MOST_TRIES = 100  # of a request that no process begins with
_MOST_LOADS = 5  # that end their process, in a row: somebody may have killed some


class Models(Protocol):
    """Runs models on items. ``apart``: in another process, which may die without this one."""

    apart: bool

    def prepare(self, models: Sequence[Model]) -> PreparedModels:
        """Load models and try the largest item of each. Raises ModelError."""

    def map(self, model: Model, items: Sequence[Any]) -> list[Any]:
        """Return an output or a Failure for each item, in order. Raises ModelError."""


class _Gone(Exception):
    """The process that was asked ended before it answered. ``at``: what it was about."""

    def __init__(self, text: str, at: type[Begun] | type[Loading] | None = None) -> None:
        super().__init__(text)
        self.at = at


class RemoteModels:
    """Asks the process at an address; one that is replaced meanwhile is asked again. For one thread at a time."""

    apart = True

    def __init__(self, address: str, key: bytes) -> None:
        self._address, self._key = address, key
        self._connection: socket.socket | None = None

    def prepare(self, models: Sequence[Model]) -> PreparedModels:
        """Load models and try the largest item of each. Raises ModelError."""
        for _ in range(_MOST_LOADS):
            with suppress(_Gone):
                found: PreparedModels = self._ask(Ask("prepare", (tuple(models),)))
                return found
        raise _cannot_load()

    def map(self, model: Model, items: Sequence[Any]) -> list[Any]:
        """Return an output or a Failure for each item, in order. Raises ModelError."""
        try:
            return map_with_restarts(partial(self._map, model), items, lambda: None)
        except PoisonedError as error:
            raise ModelError(f"{model.called()}: {error.message}") from None

    def close(self) -> None:
        """Hang up."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _map(self, model: Model, items: Sequence[Any], alone: Collection[int]) -> list[Any]:
        """Ask for all items at once but those to be run alone, which come last and one by one.

        Each is asked for twice where a process ends at it, as that may have been killed by others: then the same batches
        are run again, and give the same outputs to the last bit.
        """
        found: dict[int, Any] = {}
        together = [at for at in range(len(items)) if at not in alone]
        for group in ([together] if together else []) + [[at] for at in sorted(alone)]:
            some, by_itself = [items[at] for at in group], group[0] in alone
            try:
                outputs = self._twice(Ask("map", (model, some, [0] if by_itself else [])))
            except _Gone as gone:
                if not by_itself:
                    raise PoisonedError(str(gone), found, tuple(group)) from None
                outputs = [Failure(POISONED, str(gone))]
            except PoisonedError as error:
                done = {group[at]: output for at, output in error.done.items()}
                raise PoisonedError(
                    error.message, {**found, **done}, tuple(group[at] for at in error.suspects)
                ) from None
            found.update(zip(group, outputs, strict=True))
        return [found[at] for at in range(len(items))]

    def _twice(self, ask: Ask) -> Any:
        with suppress(_Gone):
            return self._ask(ask)
        return self._ask(ask)

    def _ask(self, ask: Ask) -> Any:
        """Return the answer. A process that ends before it begins with this is no matter: the next one is asked."""
        loads = 0
        for _ in range(_MOST_TRIES):
            answer = self._answer(ask)
            if not isinstance(answer, _Gone) or answer.at is Begun:
                break
            loads += answer.at is Loading
            if loads >= _MOST_LOADS:
                raise _cannot_load()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _answer(self, ask: Ask) -> Any:
        """Return the answer, or what came instead of one."""
        connection, at = self._connect(), None
        try:
            send(connection, ask)
            while isinstance(answer := receive(connection), (Loading, Begun)):
                at = type(answer)
        except (TypeError, AttributeError, ImportError, pickle.PicklingError) as error:
            self.close()
            return ModelError(f"what a score asks a model for, or its answer, cannot be sent: {error}")
        except (OSError, EOFError):
            self.close()
            return _Gone("the process that runs models ended while it worked on this", at)
        if isinstance(answer, (PoisonedError, NotBegun)):
            self.close()
        return _Gone("no process began with this") if isinstance(answer, NotBegun) else answer

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


def _cannot_load() -> ModelError:
    return ModelError(f"the process that loads the models ended, {_MOST_LOADS} times: is there memory for them?")
