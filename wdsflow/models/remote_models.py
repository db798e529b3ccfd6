"""Models in the processes of devices, as a worker calls them."""

import os
import pickle
import socket
import time
from collections.abc import Sequence
from multiprocessing.connection import Client
from typing import Any, Literal, TypeAlias

from wdsflow.engines.messages import receive, send
from wdsflow.engines.retries import LOADS, NOT_BEGUN, ItemTrials
from wdsflow.memory.batching.attempt import POISONED, Failure, PoisonedError
from wdsflow.stages.scores.model.model import Model

from .calls import Begun, Loading, ModelCall, NotBegun
from .loaded import ModelError, PreparedModels
from .model_location import WINDOW
from .process_files import ended_marker, pending_call_count

# The state of a call when its process ended.
CallState: TypeAlias = Literal["unbegun", "loading", "begun"]
# Seconds that a process has to come back, and between two attempts to connect.
_PATIENCE = 120.0
_PAUSE = 0.05


class _ProcessEnded(Exception):
    """The process ended before its answer. ``call_state``: how far the call was."""

    def __init__(self, text: str, call_state: CallState) -> None:
        super().__init__(text)
        self.call_state: CallState = call_state


class RemoteModels:
    """Sends each call to the least busy process among some addresses; see ``retries``.

    A process that ended is replaced by its successor.

    For one thread at a time.
    """

    in_other_process = True

    def __init__(self, addresses: Sequence[str], key: bytes, window: int = WINDOW) -> None:
        self._addresses = tuple(addresses)
        self._key = key
        self.window = window
        self._connections: dict[str, socket.socket] = {}
        # Of equally busy ones, workers begin with different ones.
        self._next = os.getpid()

    def prepare(self, models: Sequence[Model]) -> PreparedModels:
        """Load models at the first address and try the largest item of each. Raises ModelError."""
        call = ModelCall("prepare", (tuple(models),))
        deaths = 0
        for _ in range(NOT_BEGUN):
            try:
                prepared: PreparedModels = self._answer(self._addresses[0], call)
            except _ProcessEnded as ended:
                deaths += ended.call_state != "unbegun"
                if deaths == LOADS:
                    break
            else:
                return prepared
        raise _cannot_load()

    def map(self, model: Model, items: Sequence[Any]) -> list[Any]:
        """Return an output or a Failure for each item, in order. Raises ModelError."""
        trials: ItemTrials[Any] = ItemTrials(len(items))
        address = self._least_busy()
        while group := trials.next():
            group_items = [items[position] for position in group]
            alone = [0] if trials.runs_alone else []
            call = ModelCall("map", (model, group_items, alone))
            try:
                trials.record_outputs(self._answer(address, call))
            except _ProcessEnded as ended:
                if trials.record_death(ended.call_state, Failure(POISONED, str(ended))):
                    raise _cannot_load() from None
            except PoisonedError as error:
                if trials.record_lost_device(error.done, error.suspects):
                    raise ModelError(f"{model.display_name()}: {error.message}") from None
        return trials.outputs()

    def close(self) -> None:
        """Close the connections."""
        while self._connections:
            _address, connection = self._connections.popitem()
            connection.close()

    def __del__(self) -> None:
        self.close()

    def _least_busy(self) -> str:
        """Return the address of the process with the fewest calls.

        Several workers may choose it at the same time.
        """
        self._next += 1
        first = self._next % len(self._addresses)
        order = self._addresses[first:] + self._addresses[:first]
        if len(order) == 1:
            return order[0]
        return min(order, key=pending_call_count)

    def _answer(self, address: str, call: ModelCall) -> Any:
        """Return the answer to a call, or raise it if it is an error. Raises _ProcessEnded."""
        connection = self._connections.get(address) or self._connect(address)
        state: CallState = "unbegun"
        try:
            send(connection, call)
            answer = receive(connection)
            while isinstance(answer, (Loading, Begun)):
                state = "begun" if isinstance(answer, Begun) else "loading"
                answer = receive(connection)
        except (TypeError, AttributeError, ImportError, pickle.PicklingError) as error:
            self.close()
            raise ModelError(
                f"what a score asks a model for, or its answer, cannot be sent: {error}"
            ) from None
        except (OSError, EOFError):
            self.close()
            raise _ProcessEnded(
                "the process that runs models ended while it worked on this", state
            ) from None
        if isinstance(answer, (PoisonedError, NotBegun)):
            self.close()
        if isinstance(answer, NotBegun):
            raise _ProcessEnded("no process began with this", "unbegun")
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _connect(self, address: str) -> socket.socket:
        """Connect to the process at an address, or to its successor.

        Raises ModelError.
        """
        end = time.monotonic() + _PATIENCE
        while address not in self._connections:
            try:
                with Client(address, "AF_UNIX", authkey=self._key) as connection:
                    self._connections[address] = socket.socket(fileno=os.dup(connection.fileno()))
            except (OSError, EOFError):
                if ended_marker(address).exists():
                    raise ModelError(
                        "the process that runs models ended again and again without an output"
                    ) from None
                if time.monotonic() > end:
                    raise ModelError("the process that runs models does not answer") from None
                time.sleep(_PAUSE)
        return self._connections[address]


def _cannot_load() -> ModelError:
    return ModelError(
        f"the process that loads the models ended, {LOADS} times: is there memory for them?"
    )
