"""The processes that run models: one a device, started again when one ends."""

import contextlib
import pickle
import secrets
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from wdsflow.engines.family import end_family, start_family
from wdsflow.mapping.scratch import make_scratch, remove_scratch
from wdsflow.memory.batching.device import check_cap, choose
from wdsflow.models.client import RemoteModels
from wdsflow.models.server import ServerSetup, ended_mark, worked_mark
from wdsflow.stages.scores.model.model_score import Model

from .model_place import ModelError, ModelPlace

# A batch takes hundreds of MB in large pieces. glibc would fetch each from the system, all pages empty, and give it back:
# a third of the time of a small CLIP. Other C libraries do not know these names. What is kept is given back between
# batches only where memory is short: see HostDevice.release.
_ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}
# A thread that has nothing to do would spin, and take the core that a decoder or another thread of the batch needs: beside
# one other busy process on two cores, EasyOCR's detector takes five times as long.
_CPU = _ALLOCATOR | {"OMP_WAIT_POLICY": "PASSIVE"}
_MOST_ENDS = 100  # of processes in a row that had no output for anybody; then no other comes


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
            _ModelProcess(ServerSetup(f"{self._folder}/{number}", key, name, memory, tuple(sys.path)))
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
        self._process = self._start()
        threading.Thread(target=self._keep, name="wdsflow-models", daemon=True).start()

    def end(self) -> None:
        with self._lock:
            self._ended = True
            end_family(self._process)
        self._process.wait()
        _close(self._process)

    def _keep(self) -> None:
        """Start another one when one ends: the device of a process may be lost to it."""
        ends, worked = 0, worked_mark(self.setup.address)
        while True:
            process = self._process
            process.wait()
            with self._lock:
                if self._ended:
                    return
                _close(process)
                ends = 0 if worked.exists() else ends + 1
                worked.unlink(missing_ok=True)
                if ends >= _MOST_ENDS:
                    ended_mark(self.setup.address).touch()
                    return
                self._process = self._start()

    def _start(self) -> "subprocess.Popen[bytes]":
        process = start_family(
            "from wdsflow.models.server import serve; serve()",
            environment=_CPU if self.setup.device == "cpu" else {},
            stdin=subprocess.PIPE,
        )
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.write(pickle.dumps(self.setup))
            process.stdin.flush()
        return process


def _close(process: "subprocess.Popen[bytes]") -> None:
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
