"""DataLoaders whose datasets are measured where they are read: in the worker processes, or here if there are none."""

import copy
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from ..tracing.meter import Meter, Stopped
from ..tracing.pipeline_steps import TorchLoader, take_apart
from .reported_run import ReportedRun, begin_reports
from .run_reports import DATASET, RunRequest


class MeasuredLoaders:
    """Iterates over DataLoaders whose datasets are measured."""

    def __init__(self, request: RunRequest, until: float) -> None:
        self.request, self.until = request, until
        # A pipeline that repeats begins the same one again.
        self._twins: dict[int, TorchLoader] = {}

    def run(self, loader: TorchLoader) -> Iterable[object]:
        """Iterate over a copy of a loader."""
        if id(loader) not in self._twins:
            twin = self._twins[id(loader)] = copy.copy(loader)
            streams = isinstance(loader.dataset, sys.modules["torch.utils.data"].IterableDataset)
            kind = MeasuredStream if streams else MeasuredItems
            # Not by an assignment, which torch refuses after the constructor.
            vars(twin)["dataset"] = kind(loader.dataset, self.request, self.until)
        return iter(cast("Iterable[object]", self._twins[id(loader)]))


class _Measured:
    """A dataset of the user in the process that reads it. All else, such as what worker_init_fn sets, is the user's."""

    _OURS = frozenset({"_dataset", "_request", "_until", "_run"})

    def __init__(self, dataset: object, request: RunRequest, until: float) -> None:
        self._dataset, self._request, self._until = dataset, request, until
        self._run: ReportedRun | None = None

    def __reduce__(self) -> tuple[object, ...]:
        # For workers that are not forked.
        return type(self), (self._dataset, self._request, self._until)

    def __getattr__(self, name: str) -> Any:
        # Before it is made.
        if name in _Measured._OURS:
            raise AttributeError(name)
        return getattr(self._dataset, name)

    def __setattr__(self, name: str, value: object) -> None:
        if name in _Measured._OURS:
            object.__setattr__(self, name, value)
        else:
            setattr(self._dataset, name, value)

    def _measured(self) -> ReportedRun:
        """Return the run of this process."""
        if self._run is None:
            position = begin_reports(Path(self._request.folder), DATASET)
            self._run = ReportedRun(take_apart(self._chain()), DATASET, self._request, position, self._until)
        return self._run

    def _chain(self) -> object:
        return self._dataset


class MeasuredStream(_Measured):
    """A dataset that is iterated."""

    def __iter__(self) -> Iterator[object]:
        run = self._measured()
        try:
            with run.listens():
                yield from run.assemble()
        except Stopped:
            return
        except Exception as error:
            run.fail(error)
            raise
        finally:
            run.report()


class MeasuredItems(_Measured):
    """A map-style dataset."""

    def _chain(self) -> object:
        return [self._dataset]

    def __len__(self) -> int:
        return len(self._dataset)  # type: ignore[arg-type]

    def __getitem__(self, index: object) -> object:
        (item,) = self._taken([index], lambda: [cast("Any", self._dataset)[index]])
        return item

    def __getattr__(self, name: str) -> Any:
        value = super().__getattr__(name)
        # torch takes a whole batch by it, if a dataset has it.
        if name == "__getitems__" and callable(value):
            return lambda indices: self._taken(indices, lambda: value(indices))
        return value

    def _taken(self, indices: Sequence[object], take: Callable[[], list[object]]) -> list[object]:
        """Take the items of some indices, and count them."""
        run = self._measured()
        meter = Meter(run, 0)
        before = run.switch(0)
        run.begins_item(indices[0] if len(indices) == 1 else list(indices))
        try:
            items = take()
        except Exception as error:
            run.fail(error)
            run.report()
            raise
        finally:
            run.switch(before)
        for index, item in zip(indices, items, strict=False):
            run.enters(index)
            meter.count(item)
            run.look(0, item)
        # A worker is killed without notice when all is read.
        run.report()
        return items
