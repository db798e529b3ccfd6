"""Types of columns, compared with the functions of Hugging Face datasets that they stand for."""

import io
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.depth import cases
from wdsflow.scan.content.fitting import ColumnCheck, UnknownColumns, infer_columns, value_of

datasets = pytest.importorskip("datasets")
features = pytest.importorskip("datasets.features.features")

_NAMES = st.sampled_from(["a", "b", "caption", ""])
_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, 1, -7, 2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 10**30, 10**400]),
    st.sampled_from([0.0, 1.0, -2.5, 1e300, float("nan"), float("inf")]),
    st.sampled_from(["", "x", "12", "1.5", "nan", "a dog", "\ud800"]),
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=3),
    max_leaves=8,
)
_ARRAYS = st.builds(
    lambda shape, dtype, fill: np.full(shape, fill).astype(dtype),
    st.sampled_from([(), (0,), (1,), (3,), (2, 2), (1, 3), (0, 2), (2, 1, 2)]),
    st.sampled_from(
        ["f2", "f4", "f8", ">f4", "i1", "u2", "i8", "u8", "?", "U3", "S3", "M8[s]", "m8[s]", "c8"]
    ),
    st.sampled_from([0, 1, 2]),
)


def real_columns(rows: list[dict[str, Any]]) -> Any:
    """Do what the reader does with its first samples."""
    import pyarrow as pa

    tables = [
        pa.Table.from_pylist(features.cast_to_python_objects([row], only_1d_for_numpy=True))
        for row in rows
    ]
    return datasets.Features.from_arrow_schema(
        pa.concat_tables(tables, promote_options="default").schema
    )


def encodes(columns: Any, row: dict[str, Any]) -> bool:
    try:
        columns.encode_example(row)
    except Exception:
        return False
    return True


def written(value: Any) -> tuple[str, bytes]:
    if not isinstance(value, np.ndarray):
        return "json", json.dumps(value).encode()
    stream = io.BytesIO()
    np.save(stream, value)
    return "npy", stream.getvalue()


def agree(first: list[Any], later: list[Any]) -> None:
    fields = [written(value) for value in first]
    name = fields[0][0]
    rows = [{name: value_of(name, data)} for _, data in fields]
    try:
        real = real_columns([{name: value} for value in first])
    except Exception:
        assert infer_columns("a.tar", rows).error
        return
    columns = infer_columns("a.tar", rows)

    assert not columns.error
    column = ColumnCheck(name, columns.kinds[name])
    for value in later:
        _, data = written(value)
        parsed = parsed_fast(data) if name == "json" else None
        fits = encodes(real, {name: value})
        assert column.converts(data) == fits
        assert fits or parsed is None or not column.certainly_fits(parsed)


def parsed_fast(data: bytes) -> Any:
    from wdsflow.scan.content.text_content import decode_json

    return decode_json(data, ())[2]


@given(st.lists(_VALUES, min_size=1, max_size=2), st.lists(_VALUES, max_size=3))
def test_json_fits_where_the_reader_converts_it(first: list[Any], later: list[Any]) -> None:
    agree(first, [*later, *first])


@cases(12)
@given(st.lists(_ARRAYS, min_size=1, max_size=2), st.lists(_ARRAYS, max_size=2))
def test_arrays_fit_where_the_reader_converts_them(first: list[Any], later: list[Any]) -> None:
    agree(first, [*later, *first])


def nested(levels: int) -> Any:
    """Return a number in so many lists and objects, in turn."""
    value: Any = 1
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


def test_values_that_are_nested_too_deep_or_have_too_many_names_are_unknown() -> None:
    assert infer_columns("a.tar", [{"json": nested(64)}]).kinds["json"].tag == "list"
    with pytest.raises(UnknownColumns, match="nested too deep"):
        infer_columns("a.tar", [{"json": nested(65)}])
    names = {f"n{number}": 1 for number in range(4_998)}
    # 4,998 names, an object and a number.
    assert infer_columns("a.tar", [{"json": names, "cls": 1}]).error == ""
    with pytest.raises(UnknownColumns, match="too many names"):
        infer_columns("a.tar", [{"json": names, "cls": 1, "more": 1}])
