"""``wdsflow.bounded_map``."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from wdsflow.memory.sizes import parse_size

from .errors import FailedRow
from .map_dataset import map_dataset
from .map_options import MapOptions, OnError, worker_count
from .map_rows import check_rows, map_rows


class Mapped(NamedTuple):
    """The result with ``on_error="quarantine"``: the rows, and those that could not be mapped.

    For an iterable, ``quarantined`` grows while ``rows`` is iterated over.
    """

    rows: Any
    quarantined: list[FailedRow]


def bounded_map(
    dataset: Any,
    fn: Callable[..., Any],
    memory: str | int = "4GiB",
    workers: int | Literal["auto"] = "auto",
    on_error: OnError = "raise",
    *,
    batch_size: int = 1000,
    remove_columns: str | Sequence[str] | None = None,
    with_indices: bool = False,
    fn_kwargs: Mapping[str, Any] | None = None,
    features: Any = None,
    folder: str | os.PathLike[str] | None = None,
) -> Any:
    """Map a function over many rows, within a bound on the memory of all processes together.

    The result is that of ``dataset.map(fn, batched=True)``: ``fn`` takes columns and returns
    columns. Batches have as many rows as fit, estimated from earlier rows: 1 at first,
    ``batch_size`` at most. The result of a row must therefore not depend on its neighbours, and
    ``fn`` may see a row more than once. There are as many workers as fit, at most one per core. A
    batch that fails, or whose worker dies, is mapped again in halves until the row at fault is
    found. Workers are new processes, not forks; on Linux, the system limits their allocations.

    Args:
        dataset: A ``datasets.Dataset``; the result is one too, in files, opened as memory maps. Any
            other iterable is mapped as the result is iterated over: rows that are mappings become
            columns for ``fn``, which returns columns; of other rows ``fn`` takes a list and returns
            a list.
        fn: The function, of a module or of a script, or a lambda. It is pickled by dill.
        memory: Bytes for this process, its workers and their children: "4GiB". Memory that this
            process already holds counts.
        workers: The most worker processes.
        on_error: For a row that cannot be mapped: ``"raise"`` raises MappingError, ``"drop"``
            leaves it out and logs how many there were, ``"quarantine"`` leaves it out and returns
            ``Mapped(rows, quarantined)``.
        batch_size: The most rows of a batch.
        remove_columns: Columns that the result lacks, unless ``fn`` returns them.
        with_indices: Whether ``fn`` also takes the row numbers.
        fn_kwargs: Further arguments of ``fn``.
        features: The types of the result's columns, of a Dataset only.
        folder: For the files of the result; it must be empty or missing. By default they are
            temporary, next to the caches of datasets, and removed when Python ends.

    Raises:
        MappingError: A row could not be mapped; ``index`` is its number. Or ``memory`` is too
            little.
        TypeError: ``fn`` or a row cannot be sent to another process.
        ValueError: An argument has an invalid value.
    """
    if isinstance(remove_columns, str):
        remove_columns = [remove_columns]
    options = MapOptions(
        fn=fn,
        memory=parse_size(memory),
        workers=worker_count(workers),
        on_error=on_error,
        batch_size=batch_size,
        with_indices=with_indices,
        fn_kwargs=fn_kwargs or {},
        remove_columns=tuple(remove_columns or ()),
    )
    if _is_dataset(dataset):
        target = None if folder is None else Path(folder)
        rows = map_dataset(dataset, options, features, target)
    else:
        check_rows(dataset)
        if features is not None or folder is not None:
            raise ValueError(
                "features and folder are for a datasets.Dataset: the rows of an iterable are not stored"
            )
        rows = map_rows(dataset, options)
    if on_error == "quarantine":
        return Mapped(rows, options.quarantined)
    return rows


def _is_dataset(value: object) -> bool:
    # Imported if the argument is a Dataset.
    datasets = sys.modules.get("datasets")
    return datasets is not None and isinstance(value, datasets.Dataset)
