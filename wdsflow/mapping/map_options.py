"""The arguments of ``bounded_map``, checked; what they decide about rows that fail."""

import logging
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from wdsflow.engines.site import usable_cores
from wdsflow.text.shell import escape

from .batch_size import BatchSizer
from .errors import FailedRow, MappingError
from .function_work import FunctionWork
from .map_engine import Result
from .messages import MapSetup, pickle_for_worker
from .worker_pool import WorkerPool

OnError = Literal["raise", "drop", "quarantine"]

log = logging.getLogger("wdsflow.mapping")


@dataclass
class MapOptions:
    """The options of a map, and its rows that failed. Raises ValueError for an invalid option.

    Attributes:
        fn: the user's function.
        memory: bytes for all processes.
        workers: the most worker processes.
        on_error: what a row that cannot be mapped does.
        batch_size: the most rows of a batch.
        with_indices: whether ``fn`` also takes the row numbers.
        fn_kwargs: further arguments of ``fn``.
        remove_columns: columns that the result does not have, unless ``fn`` returns them.
        quarantined: the rows that failed, with on_error="quarantine".
        left_out: the numbers of all rows that failed.
    """

    fn: Callable[..., Any]
    memory: int
    workers: int
    on_error: OnError
    batch_size: Any
    with_indices: bool
    fn_kwargs: Mapping[str, object]
    remove_columns: tuple[str, ...]
    quarantined: list[FailedRow] = field(default_factory=list)
    left_out: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        if self.on_error not in {"raise", "drop", "quarantine"}:
            raise ValueError(f"on_error is 'raise', 'drop' or 'quarantine', not {self.on_error!r}")
        if not isinstance(self.batch_size, int) or self.batch_size < 1:
            raise ValueError(f"batch_size is a number from 1 on, not {self.batch_size!r}")

    def work_arguments(self) -> dict[str, Any]:
        """Return the arguments of ``FunctionWork``."""
        return {
            "fn": self.fn,
            "remove_columns": self.remove_columns,
            "fn_kwargs": self.fn_kwargs,
            "with_indices": self.with_indices,
        }

    def pool(self, work: FunctionWork) -> WorkerPool:
        """Return the worker pool for some work.

        Raises TypeError if the function cannot be sent to the workers.
        """
        path = [os.path.abspath(folder) for folder in sys.path]
        setup = MapSetup(path, pickle_for_worker(work, "fn"))
        return WorkerPool(setup, self.memory, self.workers, BatchSizer(self.batch_size))

    def record_failure(self, result: Result, row: Callable[[], object]) -> None:
        """Record a row that failed, or raise MappingError. ``row`` returns the row itself."""
        assert result.failed is not None
        index = result.batch.start
        text = result.failed.text
        if self.on_error == "raise":
            raise MappingError(f"row {index:,}: {text}", index, result.failed.detail)
        self.left_out.add(index)
        if self.on_error == "quarantine":
            self.quarantined.append(FailedRow(index, text, row()))
        elif len(self.left_out) == 1:
            log.warning("row %d is left out: %s", index, escape(text, 500))

    def log_left_out(self) -> None:
        """Log how many rows were left out, with on_error="drop"."""
        if self.on_error == "drop" and self.left_out:
            log.warning(
                "%d rows in all are left out, as they could not be mapped", len(self.left_out)
            )


def worker_count(workers: int | str) -> int:
    """Return the most workers, for "auto" the cores. Raises ValueError."""
    if workers == "auto":
        return usable_cores()
    if not isinstance(workers, int) or isinstance(workers, bool) or workers < 1:
        raise ValueError(f"workers is a number from 1 on, or 'auto', not {workers!r}")
    return workers
