"""Models on one device, loaded on first use. torch is imported in functions only."""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, NamedTuple

from wdsflow.memory.batching.attempt import OutputsError, drop_frames, is_out_of_memory, lost
from wdsflow.memory.batching.device import (
    Probe,
    check_cap,
    choose,
    current_device,
    open_device,
    other_frameworks,
    probe,
)
from wdsflow.memory.batching.runner import (
    GPU_MOST_ITEMS,
    GPU_WASTE,
    MOST_ITEMS,
    WASTE,
    BatchRunner,
    Ceiling,
    Known,
)
from wdsflow.stages.scores.model.model import Model
from wdsflow.stages.scores.model.pictures.picture_batch import joined

from .fetching import fetching

# Bytes of the items that a worker sends together. A CPU is not faster with more than 139 pictures
# of 224 x 224, a GPU is: 512 keep its processors busy. Each worker holds two windows, the process
# of a model two on a CPU and three on a GPU.
WINDOW, GPU_WINDOW = 20 << 20, 80 << 20

# Times the measured need: memory of an allocator is fragmented.
_SPARE = 1.2
# Of the free memory that a first batch may be expected to take.
_SHARE = 0.5


class ModelError(ValueError):
    """A model cannot be loaded or run; the text is for users. ``blames`` names a model that fails for every shard."""

    blames = ""


class PreparedModels(NamedTuple):
    """Facts about loaded models: a line for users about each, and facts for decoders."""

    lines: tuple[str, ...]
    facts: tuple[tuple[Model, Any], ...]


@dataclass(frozen=True)
class ModelPlace:
    """Where models run: in the processes at ``addresses``, one per device, or in the worker itself if there is none.

    ``key`` authenticates workers. ``device`` and ``memory``: where a worker loads models, and its
    limit on a GPU ("8GiB", "80%", None for all free memory). ``facts``: for decoders. ``apart``: a
    worker without an address starts a process, which loads these models first. ``window``: bytes of
    items that are sent together.
    """

    addresses: tuple[str, ...] = ()
    key: bytes = b""
    device: str = "auto"
    memory: str | None = None
    facts: tuple[tuple[Model, Any], ...] = field(default=(), compare=False)
    apart: tuple[Model, ...] | None = None
    window: int = WINDOW
    # Where they are, for messages.
    devices: tuple[str, ...] = field(default=(), compare=False)


class LoadedModels:
    """Runs models in this process, on "cpu" or "cuda:0"; equal ones are loaded once. For one thread. Raises ModelError."""

    apart = False

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
        self.spent: dict[str, tuple[int, float]] = {}

    def prepare(self, models: Sequence[Model]) -> PreparedModels:
        """Load models and try the largest item of each. Raises ModelError."""
        lines: tuple[str, ...] = ()
        for model in models:
            seen = None if self.has(model) else self.make_ready(model)
            if seen is not None:
                if not seen.fits and self.device == "cpu":
                    raise ModelError(seen.message(model.called()))
                lines += (seen.message(model.called()),)
        if self.device != "cpu":
            lines += tuple(
                f"{name} is loaded in this process and {habit}"
                for name, habit in other_frameworks().items()
            )
        return PreparedModels(lines, tuple((model, model.facts()) for model in models))

    def map(self, model: Model, items: Sequence[Any], alone: Collection[int] = ()) -> list[Any]:
        """Return an output or a Failure for each item, in order. Raises ModelError; PoisonedError: the process has to end."""
        import torch

        # The process replaces another, or nothing was prepared.
        if model not in self.runners:
            self.make_ready(model)
        started = time.perf_counter()
        try:
            with torch.inference_mode(), current_device(self.device):
                outputs = self.runners[model].map(items, alone)
            self._spend(model, len(items), time.perf_counter() - started)
            return outputs
        except OutputsError as error:
            useless = ModelError(f"{model.called()}: {error}")
            useless.blames = model.called()
            raise useless from None

    def _spend(self, model: Model, items: int, seconds: float) -> None:
        before, took = self.spent.get(repr(model), (0, 0.0))
        self.spent[repr(model)] = before + items, took + seconds

    def staged(self, model: Model, items: Sequence[Any]) -> Sequence[Any]:
        """Return the items for ``map``, pictures of one shape copied to memory that a GPU reads by itself.

        Any thread may call it while ``map`` runs: the copy is made while the device computes. It
        takes as much memory as the items, rounded up to a power of two. Without such memory, and
        for other items, they are returned as they are.
        """
        if not self.device.startswith("cuda") or not self.has(model):
            return items
        one = joined(items)
        if one is None:
            return items
        import torch

        try:
            with current_device(self.device):
                pinned = torch.empty(
                    one.shape, dtype=torch.from_numpy(one[:0]).dtype, pin_memory=True
                )
        except RuntimeError:
            # No memory; or the device is lost, which ``map`` reports.
            return items
        return list(pinned.copy_(torch.from_numpy(one)).numpy())

    def has(self, model: Model) -> bool:
        """Return whether a model is loaded."""
        return model in self.runners

    def make_ready(self, model: Model) -> Probe | None:
        """Load a model and bound its first batches by the memory of its largest item; None if that is not tried.

        Raises ModelError.
        """
        import torch

        if model not in self.runners:
            run = partial(model.run, self._loaded(model))
            on_cpu = None if self.device == "cpu" else _on_cpu(model)
            gpu = self.device.startswith("cuda")
            most, waste = (GPU_MOST_ITEMS, GPU_WASTE) if gpu else (MOST_ITEMS, WASTE)
            self.runners[model] = BatchRunner(
                run, cost=model.cost, device=self._open, on_cpu=on_cpu, most_items=most, waste=waste
            )
        runner = self.runners[model]
        item = model.largest() if model.tries_on_cpu or self.device != "cpu" else None
        if item is None:
            return None
        try:
            with torch.inference_mode(), current_device(self.device):
                seen = probe(runner.run, item, runner.cost(item), self._open)
        except Exception as error:
            raise ModelError(f"{model.called()}: {type(error).__name__}: {error}") from error
        if seen.fits and seen.free is not None and runner.ceiling.limit is None:
            fitting = seen.ceiling(int(seen.free * _SHARE))
            # A GPU reports that it is full; the system kills a process that takes all of the host's
            # memory.
            runner.ceiling = Ceiling(Known(fitting), most=fitting if self.device == "cpu" else None)
        return seen

    def _loaded(self, model: Model) -> Any:
        for last in (False, True):
            try:
                if self._open is None:
                    self._open = open_device(self.device, self._memory)
                with fetching(model) as heard, current_device(self.device):
                    return model.load(self.device)
            except (Exception, SystemExit) as error:
                if last or self._open is None or not is_out_of_memory(error):
                    if self._open is not None and (trouble := heard.trouble(model, error)):
                        raise ModelError(trouble) from error
                    raise ModelError(
                        f"{model.called()} cannot be loaded: {type(error).__name__}: {error}"
                    ) from error
                drop_frames(error)
            # Memory that other models no longer need.
            lost(self._open.release)
        raise AssertionError


def window_of(*devices: str) -> int:
    """Return the bytes of items that are sent together to models on these devices."""
    return GPU_WINDOW if any(device.startswith("cuda") for device in devices) else WINDOW


def begins_small(window: int) -> bool:
    """Return whether the first windows of a shard are small, for a ``window_of`` some devices: on a CPU."""
    return window < GPU_WINDOW


def memory_share(models: Sequence[Model], device: str, memory: str | None) -> float | None:
    """Return the share of the memory of a device that one process with these models needs; None if they cannot be tried.

    It is the memory in use after all models are loaded, and the most that the largest item of one
    of them takes, with a fifth to spare. No other process may use the device meanwhile.
    """
    loaded = LoadedModels(choose(device)[0], memory)
    try:
        seen = [probed for model in models if (probed := loaded.make_ready(model)) is not None]
    except ModelError:
        return None
    if not seen or not all(each.fits for each in seen):
        return None
    there = seen[-1].memory
    used = there.get("resident", there["total"] - there["free"])
    return _SPARE * (used + max(each.took for each in seen)) / there["total"]


def _on_cpu(model: Model) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """Return a function that runs a model on the CPU, where it is loaded for the first item that needs it."""
    loaded = cache(partial(model.load, "cpu"))
    return lambda batch: model.run(loaded(), batch)
