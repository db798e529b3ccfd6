"""Where models run: in processes, one per device, each replaced when it ends; or in this process."""

import os
import pickle
import secrets
import socket
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import replace
from functools import lru_cache
from multiprocessing.connection import Client
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Protocol

from wdsflow.engines.peer import Peer, receive, send
from wdsflow.engines.retries import LOADS, NOT_BEGUN, SERVERS, ItemTrials
from wdsflow.memory.batching.attempt import POISONED, Failure, PoisonedError
from wdsflow.memory.batching.device import check_cap, choose
from wdsflow.models.server import (
    Ask,
    Begun,
    Loading,
    NotBegun,
    ServerSetup,
    costs_mark,
    ended_mark,
    load_of,
    worked_mark,
)
from wdsflow.shards.scratch import make_scratch, remove_scratch
from wdsflow.stages.scores.model.model import Model

from .loaded import WINDOW, LoadedModels, ModelError, ModelPlace, PreparedModels, window_of
from .model_costs import ModelCost, costs_of, spent_there, where_of

# A batch takes hundreds of MB in large pieces. By default, glibc maps and unmaps each: a third of
# the time of a small CLIP. Other C libraries ignore these names. Memory is returned only when it is
# short: see HostDevice.release.
_ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}
# An idle thread would spin and occupy the core of a decoder: with another busy process on two
# cores, EasyOCR's detector takes five times as long.
_CPU = _ALLOCATOR | {"OMP_WAIT_POLICY": "PASSIVE"}
# For a GPU only windows of items pass through this memory. It is reused in one arena, so that
# threads that receive them need not wait for new pages, and is returned if half a GiB lies idle, as
# after weights were loaded.
_GPU = _ALLOCATOR | {"MALLOC_TRIM_THRESHOLD_": str(1 << 29), "MALLOC_ARENA_MAX": "1"}

# Seconds that a process has to come back.
_PATIENCE = 120.0


class Models(Protocol):
    """Runs models on items. ``apart``: in another process, which may die without this one. ``window``: see ModelPlace."""

    apart: bool
    window: int

    def prepare(self, models: Sequence[Model]) -> PreparedModels:
        """Load models and try the largest item of each. Raises ModelError."""

    def map(self, model: Model, items: Sequence[Any]) -> list[Any]:
        """Return an output or a Failure for each item, in order. Raises ModelError."""


class _Died(Exception):
    """The process ended before its answer. ``at``: the state of the request."""

    def __init__(self, text: str, at: Literal["unbegun", "loading", "begun"]) -> None:
        super().__init__(text)
        self.at: Literal["unbegun", "loading", "begun"] = at


class RemoteModels:
    """Sends each request to the least busy of the processes at some addresses, or of their successors; see ``retries``.

    For one thread at a time.
    """

    apart = True

    def __init__(self, addresses: Sequence[str], key: bytes, window: int = WINDOW) -> None:
        self._addresses, self._key, self.window = tuple(addresses), key, window
        self._connections: dict[str, socket.socket] = {}
        # Of equally busy ones, workers begin with different ones.
        self._turn = os.getpid()

    def prepare(self, models: Sequence[Model]) -> PreparedModels:
        """Load models at the first address and try the largest item of each. Raises ModelError."""
        deaths = 0
        for _ in range(NOT_BEGUN):
            try:
                found: PreparedModels = self._ask(
                    self._addresses[0], Ask("prepare", (tuple(models),))
                )
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
        address = self._least_busy()
        while group := trials.next():
            alone = [0] if trials.alone else []
            try:
                trials.finished(
                    self._ask(address, Ask("map", (model, [items[at] for at in group], alone)))
                )
            except _Died as died:
                if trials.died(died.at, Failure(POISONED, str(died))):
                    raise _cannot_load() from None
            except PoisonedError as error:
                if trials.lost_device(error.done, error.suspects):
                    raise ModelError(f"{model.called()}: {error.message}") from None
        return trials.outputs()

    def close(self) -> None:
        """Close the connections."""
        while self._connections:
            self._connections.popitem()[1].close()

    def _least_busy(self) -> str:
        """Return the address of the process with the fewest requests. Several workers may choose it at the same time."""
        self._turn += 1
        count = len(self._addresses)
        order = [self._addresses[(self._turn + at) % count] for at in range(count)]
        return min(order, key=load_of) if count > 1 else order[0]

    def _ask(self, address: str, ask: Ask) -> Any:
        """Return the answer, or raise it if it is an error. Raises _Died."""
        connection = self._connections.get(address) or self._connect(address)
        at: Literal["unbegun", "loading", "begun"] = "unbegun"
        try:
            send(connection, ask)
            while isinstance(answer := receive(connection), (Loading, Begun)):
                at = "begun" if isinstance(answer, Begun) else "loading"
        except (TypeError, AttributeError, ImportError, pickle.PicklingError) as error:
            self.close()
            raise ModelError(
                f"what a score asks a model for, or its answer, cannot be sent: {error}"
            ) from None
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

    def _connect(self, address: str) -> socket.socket:
        end = time.monotonic() + _PATIENCE
        while address not in self._connections:
            try:
                with Client(address, "AF_UNIX", authkey=self._key) as connection:
                    self._connections[address] = socket.socket(fileno=os.dup(connection.fileno()))
            except (OSError, EOFError):
                if ended_mark(address).exists():
                    raise ModelError(
                        "the process that runs models ended again and again without an output"
                    ) from None
                if time.monotonic() > end:
                    raise ModelError("the process that runs models does not answer") from None
                time.sleep(0.05)
        return self._connections[address]


def _cannot_load() -> ModelError:
    return ModelError(
        f"the process that loads the models ended, {LOADS} times: is there memory for them?"
    )


class ModelProcesses(AbstractContextManager["ModelProcesses"]):
    """A context in which models run at ``place``. Raises ModelError if there is no such device."""

    def __init__(self, device: str = "auto", memory: str | None = None) -> None:
        try:
            devices = choose(device)
            for name in devices:
                check_cap(name, memory)
        except ValueError as error:
            raise ModelError(str(error)) from None
        self._folder = make_scratch(Path(tempfile.gettempdir()), "models")
        key = secrets.token_bytes(32)
        self._processes = [
            _ModelProcess(ServerSetup(f"{self._folder}/{number}", key, name, memory))
            for number, name in enumerate(devices)
        ]
        addresses = tuple(process.setup.address for process in self._processes)
        self.place = ModelPlace(
            addresses, key, device, memory, window=window_of(*devices), devices=tuple(devices)
        )

    def prepare(self, models: Sequence[Model]) -> tuple[str, ...]:
        """Load models on all devices, try the largest item of each, and return a line about each. Raises ModelError."""
        lines: tuple[str, ...] = ()
        for process in self._processes:
            with closing(RemoteModels([process.setup.address], process.setup.key)) as asked:
                prepared = asked.prepare(models)
            lines += prepared.lines
            self.place = replace(self.place, facts=prepared.facts)
        return lines

    def costs(self, models: Mapping[str, Model]) -> list[ModelCost]:
        """Return what some models took, which are given by digests of their identities."""
        spent = [spent_there(costs_mark(process.setup.address)) for process in self._processes]
        return [cost for each in spent for cost in costs_of(models, *each)]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self._processes:
            process.end()
        remove_scratch(self._folder)


class _ModelProcess:
    def __init__(self, setup: ServerSetup) -> None:
        self.setup = setup
        self._lock = threading.Lock()
        self._ended = False
        self._peer = self._start()
        threading.Thread(target=self._keep, name="wdsflow-models", daemon=True).start()

    def end(self) -> None:
        with self._lock:
            self._ended = True
            self._peer.end()
        self._peer.close()

    def _keep(self) -> None:
        """Start another process when one ends, for instance because it lost its device."""
        ends, worked = 0, worked_mark(self.setup.address)
        while True:
            self._peer.wait()
            with self._lock:
                if self._ended:
                    return
                self._peer.close()
                ends = 0 if worked.exists() else ends + 1
                worked.unlink(missing_ok=True)
                if ends >= SERVERS:
                    ended_mark(self.setup.address).touch()
                    return
                self._peer = self._start()

    def _start(self) -> Peer:
        peer = Peer(
            "from wdsflow.models.server import serve; serve()",
            environment=_CPU if self.setup.device == "cpu" else _GPU,
        )
        with suppress(OSError):
            peer.send(self.setup)
        return peer


def costs_here(place: ModelPlace, models: Mapping[str, Model]) -> list[ModelCost]:
    """Return what some models took in this process since the last call, given by digests of their identities."""
    loaded = models_at(place)
    if not isinstance(loaded, LoadedModels):
        return []
    spent, loaded.spent = loaded.spent, {}
    return costs_of(models, where_of(loaded.device), spent)


def models_at(place: ModelPlace) -> Models:
    """Return what runs models at a place; a worker process keeps it for all its shards. Raises ModelError."""
    if place.apart is not None:
        return models_at(_started(place, place.apart, os.getpid()).place)
    for model, facts in place.facts:
        model.recall(facts)
    return _models_at(place, os.getpid())


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
def _models_at(place: ModelPlace, _: int) -> Models:
    if place.addresses:
        return RemoteModels(place.addresses, place.key, place.window)
    return LoadedModels(choose(place.device)[0], place.memory)
