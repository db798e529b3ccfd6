"""The Dataset in the Arrow files of the results."""

import os
from pathlib import Path

from .column_kinds import Dataset, Features, unified_features, widen_batch


def to_dataset(files: list[Path], like: Dataset) -> Dataset:
    """Return the Dataset in the files, with the description, split and format of another.

    Files in which a column has a narrower type, because they have only nulls or only whole numbers,
    are written again. Raises KindError if no type holds all.
    """
    import datasets

    features = [datasets.Dataset.from_file(str(path)).features for path in files]
    wide = unified_features(features)
    for path, narrow in zip(files, features, strict=True):
        if narrow.arrow_schema != wide.arrow_schema:
            _cast(path, narrow, wide)
    info = like.info.copy()
    info.features = wide
    parts = [datasets.Dataset.from_file(str(path), info=info, split=like.split) for path in files]
    dataset = parts[0]
    if len(parts) > 1:
        dataset = datasets.concatenate_datasets(parts)
    return _formatted(dataset, like)


def _cast(path: Path, narrow: Features, wide: Features) -> None:
    """Write a file again, with wider types."""
    import pyarrow

    wide_path = path.with_suffix(".wider")
    with (
        pyarrow.memory_map(str(path)) as source,
        pyarrow.ipc.open_stream(source) as reader,
        pyarrow.ipc.new_stream(str(wide_path), wide.arrow_schema) as writer,
    ):
        for batch in reader:
            writer.write_batch(widen_batch(batch, narrow, wide))
    os.replace(wide_path, path)


def _formatted(dataset: Dataset, like: Dataset) -> Dataset:
    """Give a dataset the format of another; as with map, new columns are formatted if all were."""
    form = dict(like.format)
    columns = form.pop("columns")
    if set(columns) != set(like.column_names):
        plain = set(like.column_names) - set(columns)
        form["columns"] = [name for name in dataset.column_names if name not in plain]
    elif not form["type"]:
        return dataset
    return dataset.with_format(form.pop("type"), **form.pop("format_kwargs"), **form)
