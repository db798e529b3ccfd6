"""The processes that run models: one per device, each replaced when it ends."""

import secrets
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from wdsflow.engines.peer import Peer
from wdsflow.engines.retries import SERVERS
from wdsflow.memory.batching.device import check_cap
from wdsflow.memory.batching.device_names import choose
from wdsflow.shards.scratch import make_scratch, remove_scratch
from wdsflow.stages.scores.model.model import Model

from .calls import ServerSetup
from .loaded import ModelError
from .model_costs import ModelCost, costs_of, read_spent
from .model_location import ModelLocation, window_of
from .process_files import costs_file, ended_mark, worked_mark
from .remote_models import RemoteModels

# A batch takes hundreds of MB in large pieces. By default, glibc maps and unmaps each: a third of
# the time of a small CLIP. Other C libraries ignore these names. Memory is returned only when it is
# short: see HostDevice.release.
_ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}
# An idle thread would spin and occupy the core of a decoder: with another busy process on two
# cores, EasyOCR's detector takes five times as long.
_CPU = _ALLOCATOR | {"OMP_WAIT_POLICY": "PASSIVE"}
# For a GPU only windows of items pass through this memory. It is reused in one arena, so that
# threads that receive them need not wait for new pages, and is returned if half a GiB is idle, as
# after weights were loaded.
_GPU = _ALLOCATOR | {"MALLOC_TRIM_THRESHOLD_": str(1 << 29), "MALLOC_ARENA_MAX": "1"}


class ModelProcesses(AbstractContextManager["ModelProcesses"]):
    """A context in which models run at ``location``. Raises ModelError if there is no such device."""

    def __init__(self, device: str = "auto", memory: str | None = None) -> None:
        try:
            devices = choose(device)
            for name in devices:
                check_cap(name, memory)
        except ValueError as error:
            raise ModelError(str(error)) from None
        self._folder = make_scratch(Path(tempfile.gettempdir()), "models")
        key = secrets.token_bytes(32)
        self._processes: list[_ModelProcess] = []
        for number, name in enumerate(devices):
            setup = ServerSetup(f"{self._folder}/{number}", key, name, memory)
            self._processes.append(_ModelProcess(setup))
        self.location = ModelLocation(
            addresses=tuple(process.setup.address for process in self._processes),
            key=key,
            device=device,
            memory=memory,
            window=window_of(*devices),
            devices=tuple(devices),
        )

    def prepare(self, models: Sequence[Model]) -> tuple[str, ...]:
        """Load models on all devices, try the largest item of each, and return a line about each. Raises ModelError."""
        lines: tuple[str, ...] = ()
        for process in self._processes:
            with closing(RemoteModels([process.setup.address], process.setup.key)) as remote:
                prepared = remote.prepare(models)
            lines += prepared.lines
            self.location = replace(self.location, facts=prepared.facts)
        return lines

    def costs(self, models: Mapping[str, Model]) -> list[ModelCost]:
        """Return what some models took, which are given by digests of their identities."""
        costs: list[ModelCost] = []
        for process in self._processes:
            device, spent = read_spent(costs_file(process.setup.address))
            costs += costs_of(models, device, spent)
        return costs

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
    """The process of one device, which is replaced when it ends."""

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
        worked = worked_mark(self.setup.address)
        # Processes in a row that ended without an output.
        useless = 0
        while True:
            self._peer.wait()
            with self._lock:
                if self._ended:
                    return
                self._peer.close()
                useless = 0 if worked.exists() else useless + 1
                worked.unlink(missing_ok=True)
                if useless >= SERVERS:
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
