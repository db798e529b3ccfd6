"""Asking a process that runs models."""

import os
import pickle
import socket
import time
from collections.abc import Sequence
from multiprocessing.connection import Client
from typing import Any, Literal, Protocol

from wdsflow.engines.peer import receive, send
from wdsflow.engines.retries import LOADS, NOT_BEGUN, ItemTrials
from wdsflow.memory.batching.attempt import POISONED, Failure, PoisonedError
from wdsflow.models.loaded import ModelError, PreparedModels
from wdsflow.models.server import Ask, Begun, Loading, NotBegun, ended_mark
from wdsflow.stages.scores.model.model_score import Model

_PATIENCE = 120.0  # seconds that a process has to come back


class Models(Protocol):
    """Runs models on items. ``apart``: in another process, which may die without this one."""

    apart: bool

    def prepare(self, models: Sequence[Model]) -> PreparedModels:
        """Load models and try the largest item of each. Raises ModelError."""

    def map(self, model: Model, items: Sequence[Any]) -> list[Any]:
        """Return an output or a Failure for each item, in order. Raises ModelError."""


class _Died(Exception):
    """The process that was asked ended before it answered. ``at``: how far it had come with the request."""

    def __init__(self, text: str, at: Literal["unbegun", "loading", "begun"]) -> None:
        super().__init__(text)
        self.at: Literal["unbegun", "loading", "begun"] = at


class RemoteModels:
    """Asks the process at an address, and its successors, as the policy of retries has it. For one thread at a time."""

    apart = True

    def __init__(self, address: str, key: bytes) -> None:
        self._address, self._key = address, key
        self._connection: socket.socket | None = None

    def prepare(self, models: Sequence[Model]) -> PreparedModels:
        """Load models and try the largest item of each. Raises ModelError."""
        deaths = 0
        for _ in range(NOT_BEGUN):
            try:
                found: PreparedModels = self._ask(Ask("prepare", (tuple(models),)))
            except _Died as died:
                deaths += died.at != "unbegun"
                if deaths == LOADS:
                    break
            else:
                return found
        raise _cannot_load()

    def map(self, model: Model, items: Sequence[Any]) -> list[Any]:
        """Return an output or a Failure for each item, in order. Raises ModelError."""
        trials: ItemTrials[Any] = ItemTrials(len(items))
        while group := trials.next():
            alone = [0] if trials.alone else []
            try:
                trials.finished(self._ask(Ask("map", (model, [items[at] for at in group], alone))))
            except _Died as died:
                if trials.died(died.at, Failure(POISONED, str(died))):
                    raise _cannot_load() from None
            except PoisonedError as error:
                if trials.lost_device(error.done, error.suspects):
                    raise ModelError(f"{model.called()}: {error.message}") from None
        return trials.outputs()

    def close(self) -> None:
        """Hang up."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _ask(self, ask: Ask) -> Any:
        """Return the answer. Raises what came instead of one, and _Died."""
        connection = self._connection or self._connect()
        at: Literal["unbegun", "loading", "begun"] = "unbegun"
        try:
            send(connection, ask)
            while isinstance(answer := receive(connection), (Loading, Begun)):
                at = "begun" if isinstance(answer, Begun) else "loading"
        except (TypeError, AttributeError, ImportError, pickle.PicklingError) as error:
            self.close()
            raise ModelError(f"what a score asks a model for, or its answer, cannot be sent: {error}") from None
        except (OSError, EOFError):
            self.close()
            raise _Died("the process that runs models ended while it worked on this", at) from None
        if isinstance(answer, (PoisonedError, NotBegun)):
            self.close()
        if isinstance(answer, NotBegun):
            raise _Died("no process began with this", "unbegun")
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
                if ended_mark(self._address).exists():
                    raise ModelError("the process that runs models ended again and again without an output") from None
                if time.monotonic() > end:
                    raise ModelError("the process that runs models does not answer") from None
                time.sleep(0.05)
        return self._connection


def _cannot_load() -> ModelError:
    return ModelError(f"the process that loads the models ended, {LOADS} times: is there memory for them?")
