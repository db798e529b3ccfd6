"""A map of a ``datasets.Dataset``: the result is one too, in Arrow files."""

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from wdsflow.shards.scratch import make_scratch, remove_scratch

from .arrow_parts import ArrowParts
from .column_kinds import Dataset, Features, KindError
from .dataset_work import DatasetWork, SliceSource
from .map_engine import MapEngine, Result
from .map_options import MapOptions
from .messages import pickle_for_worker
from .result_dataset import to_dataset
from .tables_on_disk import on_disk


def map_dataset(
    dataset: Dataset, options: MapOptions, features: Features, folder: Path | None
) -> Dataset:
    """Return the Dataset of the results, in files of a folder; None: of the caches of datasets.

    Raises ValueError for columns that do not exist, and for a folder that is not empty.
    """
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


def _mapped_parts(
    dataset: Dataset, options: MapOptions, features: Features, target: Path
) -> ArrowParts:
    """Map a Dataset, and return the files of the results; none if the function changes nothing."""
    with on_disk(dataset, target) as stored:
        data = pickle_for_worker(stored, "the dataset's format")
        work = DatasetWork(**options.work_arguments(), dataset=data, features=features)
        pool = options.pool(work)
        # The pool has a pickled copy.
        del data, work
        engine = MapEngine(pool, SliceSource(len(dataset)), target)
        with closing(engine.run()) as results:
            return _collected(results, options, target)


def _collected(results: Iterable[Result], options: MapOptions, target: Path) -> ArrowParts:
    """Consume all results, and return their files; none if the function changes nothing."""
    parts = ArrowParts(target)
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
