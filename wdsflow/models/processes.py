"""The processes that run models for all workers of a run: one per device."""

import secrets
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from wdsflow.memory.batching.device import check_cap
from wdsflow.memory.batching.device_names import choose_devices
from wdsflow.shards.scratch import make_scratch, remove_scratch
from wdsflow.stages.scores.model.model import Model

from .calls import ServerSetup
from .device_process import DeviceProcess
from .loaded import ModelError
from .model_costs import ModelCost, costs_of, read_model_times
from .model_location import ModelLocation, window_of
from .process_files import costs_file
from .remote_models import RemoteModels


class ModelProcesses(AbstractContextManager["ModelProcesses"]):
    """A context in which models run at ``location``.

    Raises ModelError if the device does not exist.
    """

    def __init__(self, device: str = "auto", memory: str | None = None) -> None:
        try:
            devices = choose_devices(device)
            for name in devices:
                check_cap(name, memory)
        except ValueError as error:
            raise ModelError(str(error)) from None
        # Sockets, and files about what each process does.
        self._folder = make_scratch(Path(tempfile.gettempdir()), "models")
        # Only the workers of this run can call.
        key = secrets.token_bytes(32)
        self._processes: list[DeviceProcess] = []
        for number, name in enumerate(devices):
            setup = ServerSetup(f"{self._folder}/{number}", key, name, memory)
            self._processes.append(DeviceProcess(setup))
        self.location = ModelLocation(
            addresses=tuple(process.setup.address for process in self._processes),
            key=key,
            device=device,
            memory=memory,
            window=window_of(*devices),
            devices=tuple(devices),
        )

    def prepare(self, models: Sequence[Model]) -> tuple[str, ...]:
        """Load models on all devices, try the largest item of each, and report each.

        Returns a line about each model. Raises ModelError.
        """
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
            device, times = read_model_times(costs_file(process.setup.address))
            costs += costs_of(models, device, times)
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
