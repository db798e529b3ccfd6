"""Odd tables: joined feeds and joined filters agree with the shards that graft writes.

A feed yields the same batches as the grafted shards, and a filter writes the same bytes.
"""

import codecs
import datetime
import decimal
import gzip
import json
import tarfile
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("open_clip_train", reason="OpenCLIP is not installed")

from tests.shards.archives import write_tar
from wdsflow import FeedOptions, JoinOptions, Recipe, RunOptions, feed, filter_shards
from wdsflow.joining.join_errors import JoinMismatch
from wdsflow.reshaping.graft.graft_errors import AmbiguousJoin, NoMatch
from wdsflow.reshaping.graft.run_graft import graft_shards
from wdsflow.table_files.errors import TableError
from wdsflow.training.feed_options import JoinError

# Keys of samples, and the value "id" in the json of each.
KEYS: list[tuple[str, object]] = [
    ("0", 0),
    ("007", 7),
    ("7", "7"),
    ("1.0", 1.0),
    ("é", "é"),
    ("e\u0301", "e\u0301"),
    ("a b", "a b"),
    (" lead", " lead"),
    ("d/e/f", True),
    ("True", False),
    ("18446744073709551615", 18446744073709551615),
    ("-9223372036854775808", -9223372036854775808),
    ("NaN", 0.1),
    ("null", None),
    ("2024-01-02", "2024-01-02"),
    ("x" * 150, "x" * 150),
    ('quo"te,comma', 'quo"te,comma'),
    ("雪", 1e300),
    ("\U0001f600", [1]),
]
BYTES = b"\x00\xff\xfe"
SET = ("txt=v", "json:deep.v=v", "cls=v")

Write = Callable[[Path], str]


def parquet(key: pa.Array, value: pa.Array | None = None, **more: object) -> Write:
    """A Parquet file with keys and values: by default the values are texts."""
    if value is None:
        value = pa.array([f"text {number}" for number in range(len(key))])

    def write(folder: Path) -> str:
        pq.write_table(pa.table({"key": key, "v": value}), folder / "t.parquet", **more)
        return "t.parquet"

    return write


def text(name: str, data: str | bytes) -> Write:
    def write(folder: Path) -> str:
        (folder / name).write_bytes(data.encode() if isinstance(data, str) else data)
        return name

    return write


def lines(*rows: str) -> Write:
    return text("t.jsonl", "\n".join(rows))


def files(*tables: tuple[str, bytes]) -> Write:
    """A folder of tables."""

    def write(folder: Path) -> str:
        (folder / "t").mkdir()
        for name, data in tables:
            (folder / "t" / name).write_bytes(data)
        return "t"

    return write


def all_keys() -> list[str]:
    return [key for key, _ in KEYS]


def of_all(value: Callable[[int], object], kind: pa.DataType) -> Write:
    """A row for each sample, with a value of a type."""
    return parquet(pa.array(all_keys()), pa.array([value(n) for n in range(len(KEYS))], kind))


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


DAY = datetime.date(2024, 2, 29)
MOMENT = datetime.datetime(2024, 2, 29, 23, 59, 59, 999_999, datetime.timezone.utc)
TABLES: dict[str, Write] = {
    # Values.
    "nulls": of_all(lambda n: None, pa.string()),
    "null type": of_all(lambda n: None, pa.null()),
    "empty and blank": of_all(lambda n: ["", " ", "\n", None][n % 4], pa.string()),
    "large strings": of_all(lambda n: "é" * (n * 3000), pa.large_string()),
    "string views": of_all(lambda n: f"v{n}", pa.string_view()),
    "zero bytes": of_all(lambda n: f"a\0{n}", pa.string()),
    "bytes": of_all(lambda n: BYTES * n, pa.binary()),
    "fixed bytes": of_all(lambda n: BYTES, pa.binary(3)),
    "large bytes": of_all(lambda n: b"x" * n, pa.large_binary()),
    "booleans": of_all(lambda n: [True, False, None][n % 3], pa.bool_()),
    "int8": of_all(lambda n: n - 9, pa.int8()),
    "uint64": of_all(lambda n: 2**64 - 1 - n, pa.uint64()),
    "float16": of_all(lambda n: n / 3, pa.float16()),
    "float32": of_all(lambda n: n / 3, pa.float32()),
    "odd floats": of_all(
        lambda n: [float("nan"), float("inf"), -0.0, 1e22, 5e-324, 0.1, 3.0][n % 7], pa.float64()
    ),
    "decimals": of_all(lambda n: decimal.Decimal(f"{n}.10"), pa.decimal128(20, 2)),
    "huge decimals": of_all(lambda n: decimal.Decimal(10) ** 37 + n, pa.decimal256(76, 0)),
    "dates": of_all(lambda n: DAY, pa.date32()),
    "times": of_all(lambda n: MOMENT.time(), pa.time64("us")),
    "timestamps": of_all(lambda n: MOMENT, pa.timestamp("us")),
    "timestamps in ns": of_all(lambda n: 1_700_000_000_123_456_789 + n, pa.timestamp("ns")),
    "timestamps of a zone": of_all(lambda n: MOMENT, pa.timestamp("ms", "Europe/Berlin")),
    "durations": of_all(lambda n: datetime.timedelta(seconds=n, days=n), pa.duration("us")),
    "lists": of_all(lambda n: [None, n, 2**62], pa.list_(pa.int64())),
    "lists of floats": of_all(lambda n: [float("nan"), 0.5], pa.list_(pa.float32())),
    "structs": of_all(
        lambda n: {"a": n, "b": {"c": [f"é{n}", None]}},
        pa.struct([("a", pa.int32()), ("b", pa.struct([("c", pa.list_(pa.string()))]))]),
    ),
    "structs with bytes": of_all(lambda n: {"a": BYTES}, pa.struct([("a", pa.binary())])),
    "structs with dates": of_all(
        lambda n: {"a": DAY, "b": decimal.Decimal("1.50")},
        pa.struct([("a", pa.date32()), ("b", pa.decimal128(5, 2))]),
    ),
    "maps": of_all(lambda n: [("k", n)], pa.map_(pa.string(), pa.int32())),
    "dictionaries": parquet(
        pa.array(all_keys()).dictionary_encode(),
        pa.array([f"v{n % 3}" for n in range(len(KEYS))]).dictionary_encode(),
    ),
    "small pages": parquet(pa.array(all_keys()), row_group_size=1, data_page_size=1),
    "zstd": parquet(pa.array(all_keys()), compression="zstd", use_dictionary=False),
    # Keys.
    "integer keys": parquet(pa.array([0, 7, 1, -1])),
    "uint64 keys": parquet(pa.array([0, 2**64 - 1], pa.uint64())),
    "int64 keys": parquet(pa.array([-(2**63), 7, None], pa.int64())),
    "float keys": parquet(pa.array([0.0, 7.0, 1.5, float("nan"), 1e300, 0.1])),
    "boolean keys": parquet(pa.array([True, False, None])),
    "byte keys": parquet(pa.array([b"7", "é".encode(), b"\xff"], pa.binary())),
    "date keys": parquet(pa.array([datetime.date(2024, 1, 2)], pa.date32())),
    "decimal keys": parquet(pa.array([decimal.Decimal(7), decimal.Decimal("1.0")])),
    "list keys": parquet(pa.array([["7"], ["0"]])),
    "null keys": parquet(pa.array([None, "", "7"])),
    "duplicate keys": parquet(pa.array(["7", "0", "7", "7", "0", "é"])),
    "duplicates in other forms": parquet(pa.array(["e\u0301", "\u00e9", "7", "7 "])),
    # Text.
    "csv with a mark": text("t.csv", codecs.BOM_UTF8 + "key,v\n7,seven\né,e\n".encode()),
    "csv of DOS": text("t.csv", 'key,v\r\n7,"a\r\nb"\r\n0,\r\n'),
    "csv of old Macs": text("t.csv", "key,v\r7,a\r0,b\r"),
    "csv with quotes": text("t.csv", 'key,v\n"quo""te,comma","say ""hi"""\n" lead", x \n'),
    "csv without a last line end": text("t.csv", "key,v\n7,a\n0,b"),
    "csv with an empty line": text("t.csv", "key,v\n7,a\n\n0,b\n"),
    "csv with a cell too many": text("t.csv", "key,v\n7,a,b\n"),
    "csv with a cell too few": text("t.csv", "key,v\n7\n0,b\n"),
    "csv with twice a name": text("t.csv", "key,v,v\n7,a,b\n"),
    "csv with an open quote": text("t.csv", 'key,v\n7,"a\n0,b\n'),
    "csv not in UTF-8": text("t.csv", b"key,v\n7,\xff\xfe\n0,b\n"),
    "csv with zero bytes": text("t.csv", b"key,v\n7,a\x00b\n0,b\n"),
    "csv of nothing": text("t.csv", ""),
    "csv of names": text("t.csv", "key,v\n"),
    "packed csv": text("t.csv.gz", gzip.compress(b"key,v\n7,a\n0,b\n")),
    "tsv": text("t.tsv", 'key\tv\n7\ta,b\n0\t"q"\n'),
    "lines of mixed types": lines(
        '{"key": 7, "v": "text"}',
        '{"key": "0", "v": 1e400}',
        '{"key": true, "v": [1, {"a": NaN}]}',
        '{"key": 1.0, "v": 18446744073709551616}',
        '{"key": "é", "v": false}',
        '{"key": null, "v": 1}',
        '{"key": ["a b"], "v": 1}',
        '{"v": 2}',
        '{"key": "a b"}',
    ),
    "lines with twice a name": lines(
        '{"key": "7", "v": 1, "v": 2}', '{"key": "x", "key": "0", "v": 3}'
    ),
    "lines with surrogates": lines(
        '{"key": "7", "v": "\\ud800"}', '{"key": "0", "v": "\\ud83d\\ude00"}'
    ),
    "lines with numbers as written": lines(
        '{"key": "7", "v": 1.10}', '{"key": "0", "v": -0}', '{"key": "é", "v": 1E5}'
    ),
    "deep lines": lines(f'{{"key": "7", "v": {nested(200)}}}', '{"key": "0", "v": {}}'),
    "very deep lines": lines(f'{{"key": "7", "v": {nested(100_000)}}}', '{"key": "0", "v": 1}'),
    "lines with a mark": text("t.jsonl", codecs.BOM_UTF8 + b'{"key": "7", "v": 1}\n'),
    "blank lines": lines("", '{"key": "7", "v": 1}', "   ", '{"key": "0", "v": 2}', ""),
    "lines that are no objects": lines('{"key": "7", "v": 1}', "[1]"),
    "cut lines": lines('{"key": "7", "v": 1}', '{"key": "0", "v'),
    "huge integers": lines(f'{{"key": "7", "v": {"9" * 5000}}}', '{"key": "0", "v": 1}'),
    "uuids": lines(f'{{"key": "7", "v": "{uuid.UUID(int=7)}"}}'),
    # Folders.
    "files of one kind": files(
        ("b.csv", b"key,v\n0,b\n"), ("a10.csv", b"v,key\nten,7\n"), ("a2.csv", b"key,v\n7,two\n")
    ),
    "files with other columns": files(("a.csv", b"key,v\n0,b\n"), ("b.csv", b"key,w\n7,b\n")),
    "files of several kinds": files(("a.csv", b"key,v\n0,b\n"), ("b.tsv", b"key\tv\n7\tb\n")),
}


@pytest.fixture(scope="module")
def shards(tmp_path_factory) -> list[str]:
    folder = tmp_path_factory.mktemp("in")
    paths = []
    for shard, part in enumerate((KEYS[::2], KEYS[1::2])):
        members = []
        for key, value in part:
            members.append((f"{key}.jpg", b"x"))
            if len(key) % 2:
                members.append((f"{key}.txt", b"old"))
            members.append((f"{key}.json", json.dumps({"id": value}).encode()))
        paths.append(str(write_tar(folder / f"{shard}.tar", members, tarfile.PAX_FORMAT)))
    return paths


def batches(shards, **given):
    """All samples of a feed, with every member."""
    options = FeedOptions(
        status_every=0.0, decode_in="threads", decoders=1, **given.pop("more", {})
    )
    one = feed(
        shards, batch_size=4, map=repr_of, shuffle=0, rank=0, world_size=1, options=options, **given
    )
    try:
        return list(one)
    finally:
        one.close()


def repr_of(sample):
    return repr([item for item in sample.items() if item[0] != "__url__"])


def tars(folder: Path) -> list[tuple[str, bytes]]:
    return [(path.name, path.read_bytes()) for path in sorted(folder.glob("*.tar"))]


@pytest.mark.sample(8)
@pytest.mark.parametrize("on", ["key", "json:id=key"])
@pytest.mark.parametrize("name", TABLES)
def test_an_odd_table_is_joined_as_it_is_grafted(shards, tmp_path, monkeypatch, name, on):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    table = TABLES[name](tmp_path)
    for sets, ambiguous in ((SET, "refuse"), (SET[1:2], "first"), (SET[:1], "drop")):
        compare(shards, table, on, sets, ambiguous)


def compare(shards: list[str], table: str, on: str, sets: Sequence[str], ambiguous: str) -> None:
    """Compare what graft writes with a filter and a feed that join."""
    given = {"join": table, "join_on": on, "join_set": sets}
    more = {"join_ambiguous": ambiguous}
    recipe, options = Recipe(where="True"), RunOptions(jobs=0)
    filtered, written = Path(f"f-{ambiguous}"), Path(f"g-{ambiguous}")
    join = JoinOptions(**given, **more)
    try:
        graft_shards(shards, written, table=table, on=on, fields=list(sets), ambiguous=ambiguous)
    except (AmbiguousJoin, NoMatch, TableError):
        with pytest.raises(JoinError):
            batches(shards, **given, more=more)
        with pytest.raises((JoinMismatch, TableError)):
            filter_shards(shards, filtered, recipe, options, join=join)
        return
    grafted = sorted(map(str, written.glob("*.tar")))
    assert batches(shards, **given, more=more) == batches(grafted)
    filter_shards(shards, filtered, recipe, options, join=join)
    assert tars(filtered) == tars(written)
