"""A map of an iterable: rows are read and mapped as the result is iterated over."""

import functools
import pickle
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path

from wdsflow.shards.scratch import make_scratch, remove_scratch

from .map_engine import MapEngine
from .map_options import MapOptions
from .row_files import read_rows
from .row_work import RowSource, RowWork
from .worker_pool import WorkerPool


def check_rows(dataset: object) -> None:
    """Raise ValueError if a value is no iterable of rows."""
    hint = ""
    if isinstance(dataset, Mapping):
        hint = "; map each split by itself"
    elif isinstance(dataset, Iterable) and not isinstance(dataset, (str, bytes)):
        return
    raise ValueError(
        f"dataset is a datasets.Dataset or an iterable of rows, not {type(dataset).__name__}{hint}"
    )


def map_rows(rows: Iterable[object], options: MapOptions) -> Iterator[object]:
    """Return an iterator over the result rows.

    Raises TypeError for a function that cannot be sent to workers.
    """
    # Made here: a wrong function fails at once, not when the rows are iterated over.
    pool = options.pool(RowWork(**options.work_arguments()))
    return _results(rows, options, pool)


def _results(rows: Iterable[object], options: MapOptions, pool: WorkerPool) -> Iterator[object]:
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
