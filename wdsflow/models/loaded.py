"""Models on one device, loaded on first use. torch is imported in functions only."""

import time
from collections.abc import Callable, Collection, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

from wdsflow.memory.batching.allocator import other_frameworks
from wdsflow.memory.batching.attempt import OutputsError, device_error
from wdsflow.memory.batching.ceiling import Ceiling, CeilingState
from wdsflow.memory.batching.device import check_cap, current_device, open_device
from wdsflow.memory.batching.exceptions import drop_frames
from wdsflow.memory.batching.memory_errors import is_out_of_memory
from wdsflow.memory.batching.probe import Probe, probe
from wdsflow.memory.batching.runner import GPU_MOST_ITEMS, GPU_WASTE, MOST_ITEMS, WASTE, BatchRunner
from wdsflow.stages.scores.model.model import Model
from wdsflow.stages.scores.model.pictures.picture_batch import stacked_pictures

from .fetching import fetching
from .model_location import window_of

# Of the free memory that a first batch may be expected to take.
_FIRST_BATCH_SHARE = 0.5


class ModelError(ValueError):
    """A model cannot be loaded or run; the text is for users.

    ``broken_part``: the name of a model that fails for every shard, otherwise "".
    """

    broken_part = ""


class PreparedModels(NamedTuple):
    """Facts about loaded models: a line for users about each, and facts for decoders."""

    lines: tuple[str, ...]
    facts: tuple[tuple[Model, Any], ...]


class LoadedModels:
    """Runs models in this process, on "cpu" or "cuda:0".

    Equal models are loaded once. For one thread. Raises ModelError.
    """

    in_other_process = False

    def __init__(self, device: str, memory: str | None = None) -> None:
        try:
            check_cap(device, memory)
        except ValueError as error:
            raise ModelError(str(error)) from None
        self.device = device
        self.window = window_of(device)
        self._memory = memory
        # The device, opened for the first model.
        self._open: Any = None
        self.runners: dict[Model, BatchRunner[Any, Any]] = {}
        # By the ``repr`` of a model: items, and seconds.
        self.model_times: dict[str, tuple[int, float]] = {}

    def prepare(self, models: Sequence[Model]) -> PreparedModels:
        """Load models and try the largest item of each. Raises ModelError."""
        lines: list[str] = []
        for model in models:
            result = None if self.is_loaded(model) else self.load_and_probe(model)
            if result is None:
                continue
            message = result.message(model.display_name())
            if not result.fits and self.device == "cpu":
                raise ModelError(message)
            lines.append(message)
        if self.device != "cpu":
            for name, habit in other_frameworks().items():
                lines.append(f"{name} is loaded in this process and {habit}")
        facts = tuple((model, model.facts()) for model in models)
        return PreparedModels(tuple(lines), facts)

    def map(self, model: Model, items: Sequence[Any], alone: Collection[int] = ()) -> list[Any]:
        """Return an output or a Failure for each item, in order.

        Raises ModelError; PoisonedError if the process must end.
        """
        import torch

        # The process replaces another, or nothing was prepared.
        if model not in self.runners:
            self.load_and_probe(model)
        started = time.perf_counter()
        try:
            with torch.inference_mode(), current_device(self.device):
                outputs = self.runners[model].map(items, alone)
        except OutputsError as error:
            useless = ModelError(f"{model.display_name()}: {error}")
            useless.broken_part = model.display_name()
            raise useless from None
        self._add_time(model, len(items), time.perf_counter() - started)
        return outputs

    def pinned_items(self, model: Model, items: Sequence[Any]) -> Sequence[Any]:
        """Return the items for ``map``; pictures of one shape are copied to pinned memory.

        A GPU reads this memory by itself.

        Any thread may call it while ``map`` runs: the copy is made while the device computes. It
        takes as much memory as the items, rounded up to a power of two. Without such memory, and
        for other items, they are returned as they are.
        """
        if not self.device.startswith("cuda") or not self.is_loaded(model):
            return items
        array = stacked_pictures(items)
        if array is None:
            return items
        import torch

        dtype = torch.from_numpy(array[:0]).dtype
        try:
            with current_device(self.device):
                pinned = torch.empty(array.shape, dtype=dtype, pin_memory=True)
        except RuntimeError:
            # No memory; or the device is lost, which ``map`` reports.
            return items
        return list(pinned.copy_(torch.from_numpy(array)).numpy())

    def is_loaded(self, model: Model) -> bool:
        """Return whether a model is loaded."""
        return model in self.runners

    def load_and_probe(self, model: Model) -> Probe | None:
        """Load a model and bound its first batches by the memory of its largest item.

        Returns None if the largest item is not tried.

        Raises ModelError.
        """
        import torch

        runner = self._runner(model)
        item = model.largest() if model.tries_on_cpu or self.device != "cpu" else None
        if item is None:
            return None
        try:
            with torch.inference_mode(), current_device(self.device):
                result = probe(runner.run, item, runner.cost(item), self._open)
        except Exception as error:
            raise ModelError(f"{model.display_name()}: {type(error).__name__}: {error}") from error
        if result.fits and result.free is not None and runner.ceiling.limit is None:
            limit = result.cost_within(int(result.free * _FIRST_BATCH_SHARE))
            # A GPU reports that it is full; the system kills
            # a process that takes all of the host's memory.
            most = limit if self.device == "cpu" else None
            runner.ceiling = Ceiling(CeilingState(limit), max_limit=most)
        return result

    def _runner(self, model: Model) -> BatchRunner[Any, Any]:
        """Return the batch runner of a model, which is loaded if needed.

        Raises ModelError.
        """
        if model not in self.runners:
            run = partial(model.run, self._load(model))
            is_gpu = self.device.startswith("cuda")
            self.runners[model] = BatchRunner(
                run,
                cost=model.cost,
                device=self._open,
                on_cpu=None if self.device == "cpu" else _run_on_cpu(model),
                most_items=GPU_MOST_ITEMS if is_gpu else MOST_ITEMS,
                waste=GPU_WASTE if is_gpu else WASTE,
            )
        return self.runners[model]

    def _load(self, model: Model) -> Any:
        """Load a model; if memory is short, release unused memory and try again.

        Raises ModelError.
        """
        for is_last in (False, True):
            try:
                if self._open is None:
                    self._open = open_device(self.device, self._memory)
                with fetching(model) as fetch, current_device(self.device):
                    return model.load(self.device)
            except (Exception, SystemExit) as error:
                if is_last or self._open is None or not is_out_of_memory(error):
                    instructions = "" if self._open is None else fetch.instructions(model, error)
                    if instructions:
                        raise ModelError(instructions) from error
                    raise ModelError(
                        f"{model.display_name()} cannot be loaded: {type(error).__name__}: {error}"
                    ) from error
                drop_frames(error)
            device_error(self._open.release)
        raise AssertionError

    def _add_time(self, model: Model, items: int, seconds: float) -> None:
        spent_items, spent_seconds = self.model_times.get(repr(model), (0, 0.0))
        self.model_times[repr(model)] = spent_items + items, spent_seconds + seconds


def _run_on_cpu(model: Model) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """Return a function that runs a model on the CPU.

    The model is loaded there for the first item that needs it.
    """
    loaded = cache(partial(model.load, "cpu"))
    return lambda batch: model.run(loaded(), batch)
