"""``wdsflow.bounded_map``."""

import functools
import logging
import os
import pickle
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from wdsflow.engines.site import usable_cores
from wdsflow.memory.sizes import parse_size
from wdsflow.shards.scratch import make_scratch, remove_scratch
from wdsflow.text.shell import escape

from .batch_size import Sizer
from .column_kinds import Dataset, Features, KindError, Parts, to_dataset
from .map_engine import MapEngine, Result
from .map_work import DatasetWork, RowSource, RowWork, SliceSource, on_disk, read_rows
from .map_worker import FailedRow, MappingError, MapSetup, packed
from .worker_pool import WorkerPool

log = logging.getLogger("wdsflow.mapping")

OnError = Literal["raise", "drop", "quarantine"]


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
    removed = (remove_columns,) if isinstance(remove_columns, str) else tuple(remove_columns or ())
    limits = parse_size(memory), _count(workers)
    options = _Options(fn, *limits, on_error, batch_size, with_indices, fn_kwargs or {}, removed)
    # Imported if the argument is a Dataset.
    datasets = sys.modules.get("datasets")
    if datasets is not None and isinstance(dataset, datasets.Dataset):
        rows = _map_dataset(dataset, options, features, None if folder is None else Path(folder))
    elif isinstance(dataset, (str, bytes, Mapping)) or not isinstance(dataset, Iterable):
        hint = "; map each split by itself" if isinstance(dataset, Mapping) else ""
        raise ValueError(
            f"dataset is a datasets.Dataset or an iterable of rows, not {type(dataset).__name__}{hint}"
        )
    elif features is not None or folder is not None:
        raise ValueError(
            "features and folder are for a datasets.Dataset: the rows of an iterable are not stored"
        )
    else:
        # A wrong fn fails here.
        rows = _map_rows(dataset, options, options.pool(RowWork(*options.work)))
    return Mapped(rows, options.quarantined) if on_error == "quarantine" else rows


@dataclass
class _Options:
    fn: Callable[..., Any]
    memory: int
    workers: int
    on_error: OnError
    # Not checked yet.
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

    @property
    def work(self) -> tuple[Callable[..., Any], tuple[str, ...], Mapping[str, object], bool]:
        return self.fn, self.remove_columns, self.fn_kwargs, self.with_indices

    def pool(self, work: RowWork | DatasetWork) -> WorkerPool:
        setup = MapSetup([os.path.abspath(part) for part in sys.path], packed(work, "fn"))
        return WorkerPool(setup, self.memory, self.workers, Sizer(self.batch_size))

    def note(self, result: Result, row: Callable[[], object]) -> None:
        """Record a row that failed, or raise."""
        assert result.failed is not None
        index, text = result.batch.start, result.failed.text
        if self.on_error == "raise":
            raise MappingError(f"row {index:,}: {text}", index, result.failed.detail)
        self.left_out.add(index)
        if self.on_error == "quarantine":
            self.quarantined.append(FailedRow(index, text, row()))
        elif len(self.left_out) == 1:
            log.warning("row %d is left out: %s", index, escape(text, 500))

    def end(self) -> None:
        if self.on_error == "drop" and self.left_out:
            log.warning(
                "%d rows in all are left out, as they could not be mapped", len(self.left_out)
            )


def _count(workers: int | str) -> int:
    if workers == "auto":
        return usable_cores()
    if not isinstance(workers, int) or isinstance(workers, bool) or workers < 1:
        raise ValueError(f"workers is a number from 1 on, or 'auto', not {workers!r}")
    return workers


def _map_rows(rows: Iterable[object], options: _Options, pool: WorkerPool) -> Iterator[object]:
    folder, source = make_scratch(Path(tempfile.gettempdir())), RowSource(rows)
    try:
        engine = MapEngine(pool, source, folder, ahead=options.memory // 4)
        # Ends workers even if a traceback keeps references.
        with closing(engine.run()) as results:
            for result in results:
                if result.failed is not None:
                    options.note(result, functools.partial(pickle.loads, result.batch.rows[0]))
                elif result.path is not None:
                    yield from read_rows(result.path)
        source.finish()
    finally:
        remove_scratch(folder)
    options.end()


def _map_dataset(
    dataset: Dataset, options: _Options, features: Features, folder: Path | None
) -> Dataset:
    unknown = set(options.remove_columns) - set(dataset.column_names)
    if unknown:
        raise ValueError(
            f"the dataset has no columns {sorted(unknown)} to remove; it has {dataset.column_names}"
        )
    # Dataset.map does not call the function either.
    if not len(dataset):
        return (
            dataset.remove_columns(list(options.remove_columns))
            if options.remove_columns
            else dataset
        )
    target = _folder(folder)
    try:
        with on_disk(dataset, target) as source:
            given = packed(source, "the dataset's format")
            pool = options.pool(DatasetWork(*options.work, dataset=given, features=features))
            del given
            with closing(MapEngine(pool, SliceSource(len(dataset)), target).run()) as results:
                parts = _parts(results, options, target)
        options.end()
        if parts.files:
            return to_dataset(parts.files, dataset)
        # As with map, a function that returns None is called for its side effects.
        left_out = options.left_out
        return (
            dataset.select([row for row in range(len(dataset)) if row not in left_out])
            if left_out
            else dataset
        )
    except BaseException:
        remove_scratch(target)
        raise


def _parts(results: Iterable[Result], options: _Options, target: Path) -> Parts:
    """Consume all results, and return their files; none if the function changes nothing."""
    parts, same, changed = Parts(target), 0, 0
    for result in results:
        if result.failed is not None:
            options.note(result, lambda: None)
            continue
        same, changed = same + (result.answer is None), changed + (result.answer is not None)
        rows = f"rows {result.batch.start} to {result.batch.stop - 1}"
        if same and changed:
            raise KindError(f"{rows}: fn returned columns for some rows and None for others")
        if result.path is not None and result.answer is not None:
            try:
                parts.add(result.path, result.answer)
            except KindError as error:
                raise KindError(f"{rows}: {error}") from None
    parts.finish()
    return parts


def _folder(folder: Path | None) -> Path:
    if folder is None:
        import datasets

        return make_scratch(Path(datasets.config.HF_DATASETS_CACHE))
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise ValueError(f"{folder} is not empty")
    return folder
