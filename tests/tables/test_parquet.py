"""Parquet files, written and read by DuckDB, as pyarrow reads and writes them."""

import datetime
import decimal
import os
import signal
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wdsflow.table_files.parquet_columns import (
    bytes_column,
    integer_column,
    json_column,
    number_column,
    text_column,
    truth_column,
    vector_column,
    vector_lists_column,
)
from wdsflow.table_files.parquet_file import ParquetError, ParquetFile, as_list, metadata_of
from wdsflow.table_files.parquet_writer import ParquetWriter, write_parquet

IN_UTC = datetime.datetime(2024, 5, 6, 7, 8, 9, 123456, tzinfo=datetime.timezone.utc)
MOMENT = IN_UTC.replace(tzinfo=None)
PART = pa.struct([("a", pa.int64()), ("b", pa.string())])
TYPES = {
    "dictionary": pa.array(["a", None, "b"]).dictionary_encode(),
    "large text": pa.array(["x", None, "é"], pa.large_string()),
    "large bytes": pa.array([b"\xff\0", None, b""], pa.large_binary()),
    "fixed bytes": pa.array([b"abcd", None, b"efgh"], pa.binary(4)),
    "decimal": pa.array(
        [decimal.Decimal("1.50"), None, decimal.Decimal("-12345678901234567890.12")]
    ),
    "milliseconds": pa.array(
        [MOMENT.replace(microsecond=0), None, MOMENT.replace(microsecond=0)], pa.timestamp("ms")
    ),
    "microseconds": pa.array([MOMENT, None, MOMENT]),
    "date": pa.array([datetime.date(2024, 1, 2), None, datetime.date(1, 1, 1)]),
    "time": pa.array([datetime.time(1, 2, 3, 4), None, datetime.time(0)]),
    "unsigned": pa.array([2**64 - 1, None, 0], pa.uint64()),
    "small": pa.array([-1, None, 0], pa.int8()),
    "float": pa.array([0.1, None, 2], pa.float32()),
    "half": pa.array([np.float16(0.1), None, np.float16(2)], pa.float16()),
    "double": pa.array([0.1, None, float("inf")]),
    "boolean": pa.array([True, None, False]),
    "null": pa.nulls(3),
    "list": pa.array([[1, None], None, []], pa.list_(pa.int32())),
    "fixed list": pa.array([[1.0, 2.0], None, [3.0, 4.0]], pa.list_(pa.float32(), 2)),
    "struct": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": None}], PART),
    "list of structs": pa.array([[{"a": 1, "b": None}], None, []], pa.list_(PART)),
}


def rows_of(path: Path, name: str) -> list[object]:
    return [value for batch in ParquetFile(path).batches([name], 2) for (value,) in batch]


def test_values_of_all_types_are_those_of_pyarrow(tmp_path: Path):
    pq.write_table(pa.table(TYPES), tmp_path / "t.parquet")
    for name, values in TYPES.items():
        assert repr(rows_of(tmp_path / "t.parquet", name)) == repr(values.to_pylist()), name


def test_times_with_a_zone_are_in_utc_and_maps_are_objects(tmp_path: Path):
    zone = pa.timestamp("us", tz="Europe/Berlin")
    kinds = {
        "moment": pa.array([IN_UTC, None], zone),
        "moments": pa.array([[IN_UTC, None], None], pa.list_(zone)),
        "named": pa.array([{"at": IN_UTC}, None], pa.struct([("at", zone)])),
        "map": pa.array([[("k", IN_UTC)], None], pa.map_(pa.string(), zone)),
    }
    pq.write_table(pa.table(kinds), tmp_path / "t.parquet")
    expected = (
        [IN_UTC, None],
        [[IN_UTC, None], None],
        [{"at": IN_UTC}, None],
        [{"k": IN_UTC}, None],
    )
    assert tuple(rows_of(tmp_path / "t.parquet", name) for name in kinds) == expected
    pq.write_table(
        pa.table({"t": [MOMENT]}), tmp_path / "96.parquet", use_deprecated_int96_timestamps=True
    )
    assert rows_of(tmp_path / "96.parquet", "t") == [MOMENT]


@pytest.mark.parametrize("codec", ["snappy", "zstd", "gzip", "brotli", "lz4", "none"])
def test_all_codecs_are_read(tmp_path: Path, codec):
    pq.write_table(pa.table({"a": ["x"] * 5000}), tmp_path / "t.parquet", compression=codec)
    assert rows_of(tmp_path / "t.parquet", "a") == ["x"] * 5000


@pytest.mark.parametrize(
    "name",
    ["a[b]*?.parquet", "it's.parquet", "a\\b.parquet", "é\u202e .parquet", "key=1/x.parquet"],
)
def test_a_path_is_no_pattern(tmp_path: Path, name):
    (tmp_path / "a*").mkdir()
    path = (tmp_path / name if "\\" in name else tmp_path / "a*" / name).absolute()
    path.parent.mkdir(exist_ok=True)
    write_parquet(path, {"n": integer_column([1, None])}, {"about": "'é'"})
    assert metadata_of(path) == {"about": "'é'".encode()}
    assert (ParquetFile(path).names, rows_of(path, "n")) == (["n"], [1, None])


def test_names_are_those_of_the_file(tmp_path: Path):
    names = ["a", "A", "", 'x(y="z")']
    pq.write_table(pa.table([pa.array([n]) for n in range(4)], names=names), tmp_path / "t.parquet")
    file = ParquetFile(tmp_path / "t.parquet")
    assert (file.names, list(file.batches(names, 9))) == (names, [[(0, 1, 2, 3)]])


def test_what_would_come_out_otherwise_is_refused(tmp_path: Path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"s": [{"a": 1, "A": 2}]}), path)
    with pytest.raises(ParquetError, match="differ only in case: a, A"):
        ParquetFile(path)
    pq.write_table(pa.table({"d": pa.array([decimal.Decimal(1)], pa.decimal256(50, 2))}), path)
    with pytest.raises(ParquetError, match="d has decimals of more than 38 digits"):
        ParquetFile(path)
    path.write_bytes(b"PAR1 no PAR1")
    with pytest.raises(ParquetError, match="other name is not a Parquet file"):
        ParquetFile(path, "other name")
    with pytest.raises(FileNotFoundError):
        ParquetFile(tmp_path / "none")


def test_a_file_without_columns_is_called_so(tmp_path: Path):
    pq.write_table(pa.table({"a": [1, 2]}).select([]), tmp_path / "t.parquet")
    with pytest.raises(ParquetError, match=r"t\.parquet has no columns"):
        ParquetFile(tmp_path / "t.parquet")


def test_a_batch_is_as_small_as_the_group_with_the_largest_rows_needs(tmp_path: Path):
    """Rows of 1 MB behind many small ones: the mean of the file is 10 kB."""
    schema = pa.schema({"a": pa.binary()})
    path = tmp_path / "t.parquet"
    large = [os.urandom(1 << 20) for _ in range(10)]
    with pq.ParquetWriter(path, schema) as writer:
        writer.write_table(pa.table({"a": [b"x"] * 1000}, schema))
        writer.write_table(pa.table({"a": large}, schema))
    file = ParquetFile(path)
    rows = file.rows_within(8 << 20, 1024)
    assert rows in (7, 8)
    assert [value for batch in file.batches(["a"], rows) for (value,) in batch][1000:] == large
    pq.write_table(pa.table({"a": [b"x"] * 1000}), path)
    assert ParquetFile(path).rows_within(8 << 20, 100) == 100


def test_columns_come_back_as_they_were_written_and_the_same_rows_are_the_same_bytes(
    tmp_path: Path,
):
    values = {
        "number": [1.0, None, float("nan"), float("inf")],
        "integer": [2**62 + 1, None, 0, -1],
        "truth": [None, True, False, None],
        "text": [None, "é\0", "", "x"],
        "bytes": [None, b"\xff\0", b"", b"x"],
    }
    columns = {
        "number": number_column(values["number"]),
        "integer": integer_column(values["integer"]),
        "truth": truth_column(values["truth"]),
        "text": text_column(values["text"]),
        "bytes": bytes_column(values["bytes"]),
        "json": json_column(['[{"a": "x"}]', None, "[]", '[{"a": null}]'], '[{"a": "VARCHAR"}]'),
    }
    for name in ("one", "two"):
        write_parquet(tmp_path / name, columns, {})
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    file = ParquetFile(tmp_path / "one")
    for name, column in values.items():
        assert repr(as_list(file.arrays([name])[name])) == repr(column)
    table = pq.read_table(tmp_path / "one")
    assert table["json"].to_pylist() == [[{"a": "x"}], None, [], [{"a": None}]]
    assert repr(table["number"].to_pylist()) == "[1.0, None, nan, inf]"
    with pytest.raises(UnicodeEncodeError):
        text_column(["\udc80"])


def test_vectors_are_written_in_groups_and_read_by_rows(tmp_path: Path):
    rows = 5000
    vectors = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)
    missing = np.arange(rows) % 7 == 3
    more = [vectors[number : number + 2] if number % 11 == 0 else None for number in range(rows)]
    scratch = tmp_path / "rows"
    scratch.mkdir()
    (scratch / "of a killed run").touch()
    with ParquetWriter(scratch, 2048) as writer:
        for start in range(0, rows, 2048):
            part = slice(start, start + 2048)
            writer.add(
                {
                    "v": vector_column(vectors[part], missing[part]),
                    "more": vector_lists_column(more[part]),
                }
            )
        writer.write(tmp_path / "t.parquet", {"about": "{}"})
    assert [path.name for path in tmp_path.iterdir()] == ["t.parquet"]
    file = ParquetFile(tmp_path / "t.parquet")
    assert [group.rows for group in file.groups()] == [2048, 2048, 904]
    arrays = file.arrays(["v", "more"], 2048, 4096)
    for number in range(2048, 4096):
        vector, others = arrays["v"][number - 2048], arrays["more"][number - 2048]
        assert (
            vector is np.ma.masked if missing[number] else np.array_equal(vector, vectors[number])
        )
        assert (
            others is np.ma.masked
            if number % 11
            else np.array_equal(np.stack(list(others)), more[number])
        )
    plain = pq.read_table(tmp_path / "t.parquet")
    assert plain["v"].null_count == missing.sum()
    assert plain["more"][11].as_py() == vectors[11:13].tolist()


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (
            pa.array([253402300800000000], pa.timestamp("us")),
            "10000-01-01 00:00:00 is beyond the years 1 to 9999",
        ),
        (
            pa.array([253402300800000000], pa.timestamp("us", "UTC")),
            "is beyond the years 1 to 9999",
        ),
        (
            pa.array([[({"a": 1}, 2)]], pa.map_(pa.struct([("a", pa.int32())]), pa.int32())),
            "keys of a map are lists",
        ),
    ],
    ids=["far", "far with a zone", "map of structs"],
)
def test_values_that_python_cannot_hold_are_refused(tmp_path: Path, values, reason):
    pq.write_table(pa.table({"a": values}), tmp_path / "t.parquet")
    with pytest.raises(ParquetError, match=reason):
        rows_of(tmp_path / "t.parquet", "a")


def test_nanoseconds_with_a_zone_and_odd_names_and_keys_are_read(tmp_path: Path):
    moment = datetime.datetime(1970, 1, 1, 0, 0, 0, 7, tzinfo=datetime.timezone.utc)
    zoned = pa.timestamp("ns", "Europe/Berlin")
    kinds = {
        "file_row_number": pa.array([7000, None], zoned),
        "list": pa.array([[7000], None], pa.list_(zoned)),
        "struct": pa.array(
            [{'a "TIMESTAMP WITH TIME ZONE"': 7000}, None],
            pa.struct([('a "TIMESTAMP WITH TIME ZONE"', zoned)]),
        ),
        "map": pa.array([[(datetime.date(2020, 1, 2), 1)], None], pa.map_(pa.date32(), pa.int32())),
    }
    pq.write_table(pa.table(kinds), tmp_path / "t.parquet")
    expected = [moment], {'a "TIMESTAMP WITH TIME ZONE"': moment}, {"2020-01-02": 1}
    assert tuple(rows_of(tmp_path / "t.parquet", name) for name in kinds) == (
        [moment, None],
        *([value, None] for value in expected),
    )


def test_a_signal_while_a_file_is_written_is_raised_as_elsewhere(tmp_path: Path):
    numbers = np.random.default_rng(0).random(4_000_000).tolist()
    column = number_column(numbers)
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        write_parquet(tmp_path / "t.parquet", {str(number): column for number in range(8)}, {})
    assert list(tmp_path.iterdir()) == []
    write_parquet(tmp_path / "t.parquet", {"n": integer_column([1])}, {})
    assert rows_of(tmp_path / "t.parquet", "n") == [1]
