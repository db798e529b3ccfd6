"""DataLoaders whose datasets are measured where they are read.

That is in the worker processes, or in this process if there are none.
"""

import copy
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from ...tracing.meter import Meter
from ...tracing.pipeline_stages import TorchLoader
from ...tracing.pipeline_steps import take_apart
from ...tracing.trace_run import Stopped
from ..reports.process_position import DATASET
from ..reports.run_lists import list_opened
from .no_sleep import disable_handler_sleep
from .reported_run import ReportedRun, begin_reports
from .run_request import RunRequest


class MeasuredLoaders:
    """Iterates over DataLoaders whose datasets are measured.

    Args:
        request: of the run.
        deadline: time.monotonic() at which the input ends.
    """

    def __init__(self, request: RunRequest, deadline: float) -> None:
        self.request = request
        self.deadline = deadline
        # By the identity of the loader: a pipeline that repeats begins the same one again.
        self._copies: dict[int, TorchLoader] = {}

    def run(self, loader: TorchLoader) -> Iterable[object]:
        """Iterate over a copy of a loader."""
        measured = self._copies.get(id(loader))
        if measured is None:
            measured = copy.copy(loader)
            # Not by an assignment, which torch refuses after the constructor.
            vars(measured)["dataset"] = self._measured_dataset(loader.dataset)
            self._copies[id(loader)] = measured
        return iter(cast("Iterable[object]", measured))

    def _measured_dataset(self, dataset: object) -> "_MeasuredDataset":
        if isinstance(dataset, sys.modules["torch.utils.data"].IterableDataset):
            return MeasuredStream(dataset, self.request, self.deadline)
        return MeasuredItems(dataset, self.request, self.deadline)


class _MeasuredDataset:
    """Wraps a dataset of the user in the process that reads it.

    Everything else, such as what worker_init_fn sets, is the user's.
    """

    _OWN_ATTRIBUTES = frozenset({"_dataset", "_request", "_deadline", "_run"})

    def __init__(self, dataset: object, request: RunRequest, deadline: float) -> None:
        self._dataset = dataset
        self._request = request
        self._deadline = deadline
        # None until the dataset is read.
        self._run: ReportedRun | None = None

    def __reduce__(self) -> tuple[object, ...]:
        # For workers that are not forked.
        return type(self), (self._dataset, self._request, self._deadline)

    def __getattr__(self, name: str) -> Any:
        # Before the constructor has set it.
        if name in _MeasuredDataset._OWN_ATTRIBUTES:
            raise AttributeError(name)
        return getattr(self._dataset, name)

    def __setattr__(self, name: str, value: object) -> None:
        if name in _MeasuredDataset._OWN_ATTRIBUTES:
            object.__setattr__(self, name, value)
        else:
            setattr(self._dataset, name, value)

    def _run_of_process(self) -> ReportedRun:
        """Return the run of this process, which begins at the first call."""
        if self._run is None:
            folder = Path(self._request.folder)
            # A worker that is not forked does neither yet.
            list_opened(folder, self._request.urls)
            disable_handler_sleep()
            position = begin_reports(folder, DATASET)
            chain = take_apart(self._pipeline())
            self._run = ReportedRun(chain, DATASET, self._request, position, self._deadline)
        return self._run

    def _pipeline(self) -> object:
        """Return what is taken apart into stages."""
        return self._dataset


class MeasuredStream(_MeasuredDataset):
    """A dataset that is iterated."""

    def __iter__(self) -> Iterator[object]:
        run = self._run_of_process()
        try:
            with run.counting_warnings():
                yield from run.assemble()
        except Stopped:
            return
        except Exception as error:
            run.fail(error)
            raise
        finally:
            run.report()


class MeasuredItems(_MeasuredDataset):
    """A map-style dataset."""

    def _pipeline(self) -> object:
        # One stage, whatever the dataset is.
        return [self._dataset]

    def __len__(self) -> int:
        return len(self._dataset)  # type: ignore[arg-type]

    def __getitem__(self, index: object) -> object:
        (item,) = self._measured([index], lambda: [cast("Any", self._dataset)[index]])
        return item

    def __getattr__(self, name: str) -> Any:
        value = super().__getattr__(name)
        # torch reads a whole batch by it, if a dataset has it.
        if name == "__getitems__" and callable(value):
            return lambda indices: self._measured(indices, lambda: value(indices))
        return value

    def _measured(
        self, indices: Sequence[object], read: Callable[[], list[object]]
    ) -> list[object]:
        """Read the items of some indices by a function, and count them."""
        run = self._run_of_process()
        meter = Meter(run, 0)
        before = run.switch_timer(0)
        run.note_item_start(indices[0] if len(indices) == 1 else list(indices))
        try:
            items = read()
        except Exception as error:
            run.fail(error)
            run.report()
            raise
        finally:
            run.switch_timer(before)
        for index, item in zip(indices, items, strict=False):
            run.add_item(index)
            meter.count(item)
            run.on_item(0, item)
        # A worker is killed without notice when all is read.
        run.report()
        return items
