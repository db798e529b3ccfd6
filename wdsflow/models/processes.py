"""Where models run: in processes, one a device, each replaced when it ends; or in this process."""

import os
import secrets
import tempfile
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import TracebackType

from wdsflow.engines.peer import Peer
from wdsflow.engines.retries import SERVERS
from wdsflow.mapping.scratch import make_scratch, remove_scratch
from wdsflow.memory.batching.device import check_cap, choose
from wdsflow.models.client import Models, RemoteModels
from wdsflow.models.server import ServerSetup, ended_mark, worked_mark
from wdsflow.stages.scores.model.model_score import Model

from .loaded import LoadedModels, ModelError, ModelPlace

# A batch takes hundreds of MB in large pieces. glibc would fetch each from the system, all pages empty, and give it back:
# a third of the time of a small CLIP. Other C libraries do not know these names. What is kept is given back between
# batches only where memory is short: see HostDevice.release.
_ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}
# A thread that has nothing to do would spin, and take the core that a decoder or another thread of the batch needs: beside
# one other busy process on two cores, EasyOCR's detector takes five times as long.
_CPU = _ALLOCATOR | {"OMP_WAIT_POLICY": "PASSIVE"}


class ModelProcesses(AbstractContextManager["ModelProcesses"]):
    """A context in which models can be asked for at ``place``. Raises ModelError if there is no such device."""

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
        self.place = ModelPlace(addresses, key, device, memory)

    def prepare(self, models: Sequence[Model]) -> tuple[str, ...]:
        """Load models on all devices, try the largest item of each, and return a line about each. Raises ModelError."""
        lines: tuple[str, ...] = ()
        for process in self._processes:
            with closing(RemoteModels(process.setup.address, process.setup.key)) as asked:
                prepared = asked.prepare(models)
            lines += prepared.lines
            self.place = replace(self.place, facts=prepared.facts)
        return lines

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
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
        """Start another one when one ends: the device of a process may be lost to it."""
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
            "from wdsflow.models.server import serve; serve()", environment=_CPU if self.setup.device == "cpu" else {}
        )
        with suppress(OSError):
            peer.send(self.setup)
        return peer


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
