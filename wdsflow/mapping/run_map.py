"""``wdsflow.bounded_map``."""

import functools
import os
import pickle
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Literal, NamedTuple

from wdsflow.memory.sizes import parse_size
from wdsflow.shards.scratch import make_scratch, remove_scratch

from .arrow_parts import Parts
from .column_kinds import Dataset, Features, KindError
from .dataset_work import DatasetWork, SliceSource
from .errors import FailedRow
from .map_engine import MapEngine, Result
from .map_options import MapOptions, OnError, worker_count
from .messages import packed
from .result_dataset import to_dataset
from .row_files import read_rows
from .row_work import RowSource, RowWork
from .tables_on_disk import on_disk
from .worker_pool import WorkerPool


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
        dataset: A ``datasets.Dataset``; the result is one too, in files, opened as memory maps. Any other iterable
            is mapped as the result is iterated over: rows that are mappings become columns for ``fn``, which returns
            columns; of other rows ``fn`` takes a list and returns a list.
        fn: The function, of a module or of a script, or a lambda. It is pickled by dill.
        memory: Bytes for this process, its workers and their children: "4GiB". Memory that this process already holds
            counts.
        workers: The most worker processes.
        on_error: For a row that cannot be mapped: ``"raise"`` raises MappingError, ``"drop"`` leaves it out and logs
            how many there were, ``"quarantine"`` leaves it out and returns ``Mapped(rows, quarantined)``.
        batch_size: The most rows of a batch.
        remove_columns: Columns that the result lacks, unless ``fn`` returns them.
        with_indices: Whether ``fn`` also takes the row numbers.
        fn_kwargs: Further arguments of ``fn``.
        features: The types of the result's columns, of a Dataset only.
        folder: For the files of the result; it must be empty or missing. By default they are temporary, next to the
            caches of datasets, and removed when Python ends.

    Raises:
        MappingError: A row could not be mapped; ``index`` is its number. Or ``memory`` is too little.
        TypeError: ``fn`` or a row cannot be sent to another process.
        ValueError: An argument has an invalid value.
    """
    if isinstance(remove_columns, str):
        remove_columns = [remove_columns]
    options = MapOptions(
        fn,
        parse_size(memory),
        worker_count(workers),
        on_error,
        batch_size,
        with_indices,
        fn_kwargs or {},
        tuple(remove_columns or ()),
    )
    if _is_dataset(dataset):
        target = None if folder is None else Path(folder)
        rows = _map_dataset(dataset, options, features, target)
    else:
        _check_rows(dataset)
        if features is not None or folder is not None:
            raise ValueError(
                "features and folder are for a datasets.Dataset: the rows of an iterable are not stored"
            )
        # A wrong fn fails here, not when the rows are iterated over.
        pool = options.pool(RowWork(**options.work_arguments()))
        rows = _map_rows(dataset, options, pool)
    if on_error == "quarantine":
        return Mapped(rows, options.quarantined)
    return rows


def _check_rows(dataset: object) -> None:
    """Raise ValueError if a value is no iterable of rows."""
    hint = ""
    if isinstance(dataset, Mapping):
        hint = "; map each split by itself"
    elif isinstance(dataset, Iterable) and not isinstance(dataset, (str, bytes)):
        return
    raise ValueError(
        f"dataset is a datasets.Dataset or an iterable of rows, not {type(dataset).__name__}{hint}"
    )


def _is_dataset(value: object) -> bool:
    # Imported if the argument is a Dataset.
    datasets = sys.modules.get("datasets")
    return datasets is not None and isinstance(value, datasets.Dataset)


def _map_rows(rows: Iterable[object], options: MapOptions, pool: WorkerPool) -> Iterator[object]:
    """Yield the result rows of an iterable."""
    folder = make_scratch(Path(tempfile.gettempdir()))
    source = RowSource(rows)
    try:
        engine = MapEngine(pool, source, folder, ahead=options.memory // 4)
        # Ends workers even if a traceback keeps references.
        with closing(engine.run()) as results:
            for result in results:
                if result.failed is not None:
                    row = functools.partial(pickle.loads, result.batch.rows[0])
                    options.record_failure(result, row)
                elif result.path is not None:
                    yield from read_rows(result.path)
        source.finish()
    finally:
        remove_scratch(folder)
    options.log_left_out()


def _map_dataset(
    dataset: Dataset, options: MapOptions, features: Features, folder: Path | None
) -> Dataset:
    """Return the Dataset of the results, in files of a folder."""
    removed = list(options.remove_columns)
    unknown = set(removed) - set(dataset.column_names)
    if unknown:
        raise ValueError(
            f"the dataset has no columns {sorted(unknown)} to remove; it has {dataset.column_names}"
        )
    # Dataset.map does not call the function either.
    if not len(dataset):
        return dataset.remove_columns(removed) if removed else dataset
    target = _result_folder(folder)
    try:
        parts = _mapped_parts(dataset, options, features, target)
        options.log_left_out()
        if parts.files:
            return to_dataset(parts.files, dataset)
    except BaseException:
        remove_scratch(target)
        raise
    # As with map, a function that returns None is called for its side effects.
    if not options.left_out:
        return dataset
    return dataset.select([row for row in range(len(dataset)) if row not in options.left_out])


def _mapped_parts(dataset: Dataset, options: MapOptions, features: Features, target: Path) -> Parts:
    """Map a Dataset, and return the files of the results; none if the function changes nothing."""
    with on_disk(dataset, target) as stored:
        data = packed(stored, "the dataset's format")
        work = DatasetWork(**options.work_arguments(), dataset=data, features=features)
        pool = options.pool(work)
        # The pool has a pickled copy.
        del data, work
        engine = MapEngine(pool, SliceSource(len(dataset)), target)
        with closing(engine.run()) as results:
            return _collected(results, options, target)


def _collected(results: Iterable[Result], options: MapOptions, target: Path) -> Parts:
    """Consume all results, and return their files; none if the function changes nothing."""
    parts = Parts(target)
    is_changed: bool | None = None
    for result in results:
        if result.failed is not None:
            options.record_failure(result, lambda: None)
            continue
        rows = f"rows {result.batch.start} to {result.batch.stop - 1}"
        changes = result.answer is not None
        if is_changed is not None and changes != is_changed:
            raise KindError(f"{rows}: fn returned columns for some rows and None for others")
        is_changed = changes
        if result.path is not None and result.answer is not None:
            try:
                parts.add(result.path, result.answer)
            except KindError as error:
                raise KindError(f"{rows}: {error}") from None
    parts.finish()
    return parts


def _result_folder(folder: Path | None) -> Path:
    """Return the folder for the result. Raises ValueError if it is not empty."""
    if folder is None:
        import datasets

        return make_scratch(Path(datasets.config.HF_DATASETS_CACHE))
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise ValueError(f"{folder} is not empty")
    return folder
