"""The types of columns: one that holds the values of several batches."""

import dataclasses
import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

# datasets and pyarrow have no annotations.
Dataset: TypeAlias = Any
Feature: TypeAlias = Any
Features: TypeAlias = Any
# A type, schema, table or reader.
Arrow: TypeAlias = Any
_LISTS = {"List", "LargeList", "Sequence"}


class KindError(TypeError):
    """A column has no type that fits all rows, or some rows have other columns.

    The message is written for users.
    """


def unified_features(features: Iterable[Mapping[str, Feature]]) -> Features:
    """Return Features that hold the values of all given ones.

    Columns are in the order of the first. Raises KindError.

    As with ``Dataset.map``, values without a common Arrow type become Json, in versions of datasets
    that have it.
    """
    import datasets

    first, *others = features
    for other in others:
        if set(other) != set(first):
            names = ", ".join(sorted(set(other) ^ set(first)))
            raise KindError(f"fn gave some rows columns that others lack: {names}")
        first = {name: _merged(name, kind, other[name]) for name, kind in first.items()}
    return datasets.Features(first)


def holds_json(kind: Feature) -> bool:
    """Return whether a feature is Json, or has Json inside."""
    if isinstance(kind, dict):
        return any(map(holds_json, kind.values()))
    inner = _inner(kind)
    return holds_json(inner) if inner is not None else _is_json(kind)


def widen_batch(batch: Arrow, narrow: Mapping[str, Feature], wide: Features) -> Arrow:
    """Convert an Arrow record batch from the features ``narrow`` to the wider features ``wide``."""
    import pyarrow
    from datasets.table import cast_array_to_feature

    columns = []
    for name, kind in wide.items():
        column = batch.column(name)
        if holds_json(kind) and narrow[name] != kind:
            values = [_encoded(value, narrow[name], kind) for value in column.to_pylist()]
            column = pyarrow.array(values, _arrow(name, _stored(kind)))
        columns.append(cast_array_to_feature(column, kind))
    return pyarrow.RecordBatch.from_arrays(columns, schema=wide.arrow_schema)


def _merged(name: str, one: Feature, other: Feature) -> Feature:
    """Return a feature of a column that holds the values of two. Raises KindError."""
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
    """Return the feature of the common Arrow type of two features, or Json.

    Raises KindError.
    """
    import datasets
    import pyarrow

    one_type = _arrow(name, one)
    other_type = _arrow(name, other)
    fits_json = hasattr(datasets, "Json") and _in_json(one_type) and _in_json(other_type)
    is_json = _is_json(one) or _is_json(other)
    are_structs = isinstance(one, dict) and isinstance(other, dict)
    if fits_json and (is_json or are_structs):
        return datasets.Json()
    try:
        schemas = [pyarrow.schema({name: kind}) for kind in (one_type, other_type)]
        common = pyarrow.unify_schemas(schemas, promote_options="permissive")
    except pyarrow.ArrowException as error:
        if fits_json:
            return datasets.Json()
        raise KindError(
            f"column {name!r} has types that do not go together: give features= ({error})"
        ) from None
    # Keep a column's own feature (an image, class names) if its type stays.
    common_type = common.field(0).type
    if one_type == common_type:
        return one
    if other_type == common_type:
        return other
    return datasets.Features.from_arrow_schema(common)[name]


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
    plain_types = (
        of.is_null,
        of.is_boolean,
        of.is_integer,
        of.is_floating,
        of.is_string,
        of.is_large_string,
    )
    if any(is_type(kind) for is_type in plain_types):
        return True
    return getattr(kind, "extension_name", "") == "arrow.json"


def _stored(kind: Feature) -> Feature:
    """Return a feature with text in place of Json."""
    import datasets

    if isinstance(kind, dict):
        return {name: _stored(part) for name, part in kind.items()}
    inner = _inner(kind)
    if inner is not None:
        return _list_like(kind, kind, _stored(inner))
    return datasets.Value("string") if _is_json(kind) else kind


def _encoded(value: Any, narrow: Feature, wide: Feature) -> object:
    """Return a value in which parts that become Json are JSON text."""
    if value is None or not holds_json(wide) or narrow == wide:
        return value
    if isinstance(wide, dict):
        return {name: _encoded(value.get(name), narrow[name], part) for name, part in wide.items()}
    inner = _inner(wide)
    if inner is not None:
        return [_encoded(entry, _inner(narrow), inner) for entry in value]
    return json.dumps(value) if isinstance(value, str) else wide.encode_example(value)
