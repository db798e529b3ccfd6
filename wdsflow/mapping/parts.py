"""Puts the Arrow files of the batches together: few files, one schema, never more than a record batch in memory."""

import os
from pathlib import Path
from typing import Any

_OWN = 32 << 20  # bytes; a file of that size stays as it is, smaller ones are put together
_FULL = 256 << 20


class Parts:
    """Collects files in order. All of them lie in ``folder`` at the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: list[Path] = []
        self._writer: Any = None
        self._schema: Any = None
        self._size = 0

    def add(self, path: Path) -> None:
        """Take over the next file."""
        import pyarrow

        size = path.stat().st_size
        if size >= _OWN:
            self.finish()
            os.replace(path, self._new())
            return
        with pyarrow.memory_map(str(path)) as source, pyarrow.ipc.open_stream(source) as reader:
            if self._writer is not None and (reader.schema != self._schema or self._size >= _FULL):
                self.finish()
            if self._writer is None:
                self._schema, self._size = reader.schema, 0
                self._writer = pyarrow.ipc.new_stream(str(self._new()), reader.schema)
            for batch in reader:
                self._writer.write_batch(batch)
        self._size += size

    def finish(self) -> None:
        """Close the file that is being written."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _new(self) -> Path:
        self.files.append(self.folder / f"rows-{len(self.files):06d}.arrow")
        return self.files[-1]


def to_dataset(files: list[Path], like: Any) -> Any:
    """Return the Dataset that the files are, with the description, split and format of another.

    Where a column has a narrower type in some files, as only nulls or only whole numbers were there, these are written
    anew. Raises TypeError where there is no type for all.
    """
    import datasets

    features = [datasets.Dataset.from_file(str(path)).features for path in files]
    wanted = _unified(features)
    for path, found in zip(files, features, strict=True):
        if found.arrow_schema != wanted.arrow_schema:
            _cast(path, wanted)
    info = like.info.copy()
    info.features = wanted
    parts = [datasets.Dataset.from_file(str(path), info=info, split=like.split) for path in files]
    return _formatted(datasets.concatenate_datasets(parts) if len(parts) > 1 else parts[0], like)


def _unified(features: list[Any]) -> Any:
    import datasets
    import pyarrow

    first = features[0]
    if all(found == first for found in features):
        return first
    columns = set(first)
    if any(set(found) != columns for found in features):
        told = sorted(set().union(*features) - set.intersection(*map(set, features)))
        raise TypeError(f"fn gave some rows columns that others have not: {', '.join(told)}")
    wanted: dict[str, Any] = {}
    for name in first:
        kinds = list({str(found[name]): found[name] for found in features}.values())
        if len(kinds) == 1:
            wanted[name] = kinds[0]
            continue
        schemas = [
            pyarrow.schema({name: datasets.Features({name: kind}).arrow_schema.field(name).type}) for kind in kinds
        ]
        try:
            unified = pyarrow.unify_schemas(schemas, promote_options="permissive")
        except pyarrow.ArrowException as error:
            raise TypeError(f"column {name!r} has types that do not go together: give features= ({error})") from None
        # A column's own feature (an image, class names) stays where its type does.
        same = [
            kind for kind, schema in zip(kinds, schemas, strict=True) if schema.field(0).type == unified.field(0).type
        ]
        wanted[name] = same[0] if same else datasets.Features.from_arrow_schema(unified)[name]
    return datasets.Features(wanted)


def _cast(path: Path, features: Any) -> None:
    import pyarrow
    from datasets.table import table_cast

    wider = path.with_suffix(".wider")
    schema = features.arrow_schema
    with (
        pyarrow.memory_map(str(path)) as source,
        pyarrow.ipc.open_stream(source) as reader,
        pyarrow.ipc.new_stream(str(wider), schema) as writer,
    ):
        for batch in reader:
            table = pyarrow.Table.from_batches([batch]).select(schema.names)
            writer.write_table(table_cast(table, schema))
    os.replace(wider, path)


def _formatted(dataset: Any, like: Any) -> Any:
    """Give a dataset the format of another; as with map, new columns are formatted if all were."""
    form = dict(like.format)
    columns = form.pop("columns")
    if set(columns) != set(like.column_names):
        plain = set(like.column_names) - set(columns)
        form["columns"] = [name for name in dataset.column_names if name not in plain]
    return dataset.with_format(form.pop("type"), **form.pop("format_kwargs"), **form) if form["type"] else dataset
