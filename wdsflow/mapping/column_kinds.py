"""Joins the Arrow files of the batches: few files, one schema, never more than a record batch in memory."""

import dataclasses
import json
import logging
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from wdsflow.text.shell import escape

log = logging.getLogger("wdsflow.mapping")

# datasets and pyarrow have no annotations.
Dataset: TypeAlias = Any
Feature: TypeAlias = Any
Features: TypeAlias = Any
# A type, schema, table or reader.
Arrow: TypeAlias = Any
# Bytes; smaller files are joined.
_OWN = 32 << 20
_FULL = 256 << 20
_LISTS = {"List", "LargeList", "Sequence"}


class KindError(TypeError):
    """A column has no type for all rows, or some rows have other columns. The message is for users."""


class Parts:
    """Collects files in order, in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: list[Path] = []
        self._writer: Arrow = None
        self._schema: Arrow = None
        self._size = 0
        # Of all rows so far.
        self._wanted: Features = None
        # A file without rows, whose types do not count.
        self._empty: Path | None = None

    def add(self, path: Path, rows: int) -> None:
        """Add the next file, of ``rows`` rows. Raises KindError if its types do not fit those of the others."""
        import datasets
        import pyarrow

        if not rows:
            if self._empty is None:
                self._empty = self.folder / "no-rows.arrow"
                os.replace(path, self._empty)
            return
        size = path.stat().st_size
        with pyarrow.memory_map(str(path)) as source, pyarrow.ipc.open_stream(source) as reader:
            found = datasets.Features.from_arrow_schema(reader.schema)
            self._widen(found)
            if size < _OWN:
                self._copy(reader, found)
                self._size += size
                return
        self._close()
        os.replace(path, self._new())

    def finish(self) -> None:
        """Close the current file. Afterwards there is at least one file if any was added."""
        self._close()
        if self._empty is not None:
            if self.files:
                self._empty.unlink()
            else:
                self.files.append(self._empty)

    def _widen(self, found: Features) -> None:
        before = self._wanted
        self._wanted = found if before is None else unified([before, found])
        for name, kind in self._wanted.items() if before is not None else ():
            if holds_json(kind) and not holds_json(before[name]):
                text = f"column {name!r} becomes Json: it is {before[name]} in some rows, {found[name]} in others"
                log.warning("%s", escape(text, 500))

    def _copy(self, reader: Arrow, found: Features) -> None:
        import pyarrow

        schema = self._wanted.arrow_schema
        if self._writer is not None and (schema != self._schema or self._size >= _FULL):
            self._close()
        if self._writer is None:
            self._schema, self._size = schema, 0
            self._writer = pyarrow.ipc.new_stream(str(self._new()), schema)
        for batch in reader:
            self._writer.write_batch(
                batch if batch.schema == schema else widened(batch, found, self._wanted)
            )

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _new(self) -> Path:
        self.files.append(self.folder / f"rows-{len(self.files):06d}.arrow")
        return self.files[-1]


def to_dataset(files: list[Path], like: Dataset) -> Dataset:
    """Return the Dataset in the files, with the description, split and format of another.

    Files in which a column has a narrower type, because they have only nulls or only whole numbers,
    are written again. Raises KindError if no type holds all.
    """
    import datasets

    features = [datasets.Dataset.from_file(str(path)).features for path in files]
    wanted = unified(features)
    for path, found in zip(files, features, strict=True):
        if found.arrow_schema != wanted.arrow_schema:
            _cast(path, found, wanted)
    info = like.info.copy()
    info.features = wanted
    parts = [datasets.Dataset.from_file(str(path), info=info, split=like.split) for path in files]
    return _formatted(datasets.concatenate_datasets(parts) if len(parts) > 1 else parts[0], like)


def _cast(path: Path, kinds: Features, wanted: Features) -> None:
    import pyarrow

    wider = path.with_suffix(".wider")
    with (
        pyarrow.memory_map(str(path)) as source,
        pyarrow.ipc.open_stream(source) as reader,
        pyarrow.ipc.new_stream(str(wider), wanted.arrow_schema) as writer,
    ):
        for batch in reader:
            writer.write_batch(widened(batch, kinds, wanted))
    os.replace(wider, path)


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


def unified(features: Iterable[Mapping[str, Feature]]) -> Features:
    """Return Features that hold the values of all given ones, in the column order of the first. Raises KindError.

    As with ``Dataset.map``, values without a common Arrow type become Json, in versions of datasets
    that have it.
    """
    import datasets

    first, *others = features
    for found in others:
        if set(found) != set(first):
            names = ", ".join(sorted(set(found) ^ set(first)))
            raise KindError(f"fn gave some rows columns that others lack: {names}")
        first = {name: _merged(name, kind, found[name]) for name, kind in first.items()}
    return datasets.Features(first)


def holds_json(kind: Feature) -> bool:
    """Return whether a feature is Json, or has Json inside."""
    if isinstance(kind, dict):
        return any(map(holds_json, kind.values()))
    inner = _inner(kind)
    return holds_json(inner) if inner is not None else _is_json(kind)


def widened(batch: Arrow, kinds: Mapping[str, Feature], wanted: Features) -> Arrow:
    """Convert an Arrow record batch from the features ``kinds`` to the wider features ``wanted``."""
    import pyarrow
    from datasets.table import cast_array_to_feature

    columns = []
    for name, kind in wanted.items():
        column = batch.column(name)
        if holds_json(kind) and kinds[name] != kind:
            values = [_encoded(value, kinds[name], kind) for value in column.to_pylist()]
            column = pyarrow.array(values, _arrow(name, _stored(kind)))
        columns.append(cast_array_to_feature(column, kind))
    return pyarrow.RecordBatch.from_arrays(columns, schema=wanted.arrow_schema)


def _merged(name: str, one: Feature, other: Feature) -> Feature:
    if one == other:
        return one
    for kind, wider in ((one, other), (other, one)):
        if getattr(kind, "dtype", None) == "null":
            return wider
    if isinstance(one, dict) and isinstance(other, dict) and set(one) == set(other):
        return {key: _merged(name, kind, other[key]) for key, kind in one.items()}
    inner = _inner(one), _inner(other)
    if type(one) is type(other) and None not in inner:
        return _list_like(one, other, _merged(name, *inner))
    return _by_arrow(name, one, other)


def _by_arrow(name: str, one: Feature, other: Feature) -> Feature:
    import datasets
    import pyarrow

    types = [_arrow(name, one), _arrow(name, other)]
    known = hasattr(datasets, "Json") and all(map(_in_json, types))
    if not known or not (
        _is_json(one) or _is_json(other) or (isinstance(one, dict) and isinstance(other, dict))
    ):
        try:
            schemas = [pyarrow.schema({name: each}) for each in types]
            common = pyarrow.unify_schemas(schemas, promote_options="permissive")
        except pyarrow.ArrowException as error:
            if not known:
                raise KindError(
                    f"column {name!r} has types that do not go together: give features= ({error})"
                ) from None
        else:
            # Keep a column's own feature (an image, class names) if its type stays.
            same = [
                kind
                for kind, each in zip((one, other), types, strict=True)
                if each == common.field(0).type
            ]
            return same[0] if same else datasets.Features.from_arrow_schema(common)[name]
    return datasets.Json()


def _is_json(kind: Feature) -> bool:
    return type(kind).__name__ == "Json"


def _inner(kind: Feature) -> Feature:
    """Return the feature of a list's entries, None if it is not a list."""
    if isinstance(kind, list):
        return kind[0]
    return kind.feature if type(kind).__name__ in _LISTS else None


def _list_like(one: Feature, other: Feature, inner: Feature) -> Feature:
    if isinstance(one, list):
        return [inner]
    if getattr(one, "length", -1) != getattr(other, "length", -1):
        one = dataclasses.replace(one, length=-1)
    return dataclasses.replace(one, feature=inner)


def _arrow(name: str, kind: Feature) -> Arrow:
    import datasets

    return datasets.Features({name: kind}).arrow_schema.field(name).type


def _in_json(kind: Arrow) -> bool:
    """Return whether JSON can hold all values of an Arrow type."""
    import pyarrow.types as of

    if of.is_struct(kind):
        return all(_in_json(kind.field(number).type) for number in range(kind.num_fields))
    if of.is_list(kind) or of.is_large_list(kind) or of.is_fixed_size_list(kind):
        return _in_json(kind.value_type)
    plain = (
        of.is_null,
        of.is_boolean,
        of.is_integer,
        of.is_floating,
        of.is_string,
        of.is_large_string,
    )
    return (
        any(check(kind) for check in plain) or getattr(kind, "extension_name", "") == "arrow.json"
    )


def _stored(kind: Feature) -> Feature:
    """Return a feature with text in place of Json."""
    import datasets

    if isinstance(kind, dict):
        return {name: _stored(each) for name, each in kind.items()}
    inner = _inner(kind)
    if inner is not None:
        return _list_like(kind, kind, _stored(inner))
    return datasets.Value("string") if _is_json(kind) else kind


def _encoded(value: Any, kind: Feature, wanted: Feature) -> object:
    """Return a value in which parts that become Json are JSON text."""
    if value is None or not holds_json(wanted) or kind == wanted:
        return value
    if isinstance(wanted, dict):
        return {name: _encoded(value.get(name), kind[name], each) for name, each in wanted.items()}
    inner = _inner(wanted)
    if inner is not None:
        return [_encoded(each, _inner(kind), inner) for each in value]
    return json.dumps(value) if isinstance(value, str) else wanted.encode_example(value)
