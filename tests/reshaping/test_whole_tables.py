"""What is said of tables that cannot be used, and of joins that are not possible, word by word."""

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.golden_file import check_text
from wdsflow.joining.join_on import WrongJoin, parse_on, parse_set
from wdsflow.joining.join_text import join_query, join_text
from wdsflow.joining.set_json import BrokenJson, set_in_json
from wdsflow.joining.table_files import locate_table
from wdsflow.joining.table_rows import row_batches
from wdsflow.table_files.errors import NoTable, TableError

GOLDEN = Path(__file__).parent / "golden" / "whole_tables.txt"
FILES = {
    "plain.csv": b"key,caption,n\na,one,1\nb,,2\n\nc,three,3\n",
    "bom.csv": b"\xef\xbb\xbfkey,caption\na,\xff\n",
    "utf16.csv": "key,caption\na,b\n".encode("utf-16"),
    "semicolons.csv": b"key;caption\na;b\n",
    "tabs.csv": b"key\tcaption\na\tb\n",
    "commas.tsv": b"key,caption\na,b\n",
    "plain.tsv": b"key\tcaption\na\tx,y\n",
    "nearly.csv": b" Key ,Capton\na,b\n",
    "twice.csv": b"key,caption,caption\na,b,c\n",
    "empty.csv": b"",
    "blank.csv": b"\n\n",
    "quote.csv": b'key,caption\na,"b\nc\n',
    "fields.csv": b"key,caption\na,b\nc\n",
    "many.csv": ",".join(f"c{number}" for number in range(60)).encode() + b"\n",
    "first.csv": b"a,b\nc,d\n",
    "packed.csv.gz": gzip.compress(b"key,caption\na\n"),
    "cut.csv.gz": gzip.compress(b"key,caption\n" + b"a,b\n" * 99)[:-9],
    "plain.jsonl": b'\xef\xbb\xbf{"key": "a", "caption": 1.5}\n\n{"key": 12345678901234567890123, "x": 1}\n{"key": 3.0}\n',
    "broken.jsonl": b'{"key": "a"}\n{"key"\n',
    "list.jsonl": b"[1]\n",
    "bad.parquet": b"PAR1",
    "other.txt": b"",
}


def test_tables_are_read_or_refused_with_these_words(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, data in FILES.items():
        Path(name).write_bytes(data)
    pq.write_table(
        pa.table({"key": ["a", None], "caption": ["x", "y"], "n": [1, 2]}), "plain.parquet"
    )
    Path("several").mkdir()
    for name in ("a.csv", "b.jsonl"):
        Path("several", name).write_bytes(b"")
    Path("none").mkdir()
    lines = []
    for given in [
        *FILES,
        "plain.parquet",
        "several",
        "none",
        "",
        "plain.cs",
        "{plain,nearly}.csv",
        "no/where.csv",
    ]:
        lines.append(given)
        try:
            table = locate_table(given)
            for path in table.files:
                for joins, values in row_batches(table, path, parse_on("key"), ["caption"]):
                    lines += [
                        f"  {join!r} {value!r}" for join, value in zip(joins, values, strict=True)
                    ]
        except TableError as error:
            near = f" near {error.nearest_table}" if isinstance(error, NoTable) else ""
            text = str(error).replace(
                str(error).partition("not a Parquet file: ")[2] or "\0", "..."
            )
            lines += [f"  {text}{near}", *(f"    {advice}" for advice in error.advice)]
    check_text(GOLDEN, "tables", ascii("\n".join(lines)).replace("\\n", "\n"))


def test_what_to_join_on_and_to_set_is_parsed_or_refused():
    lines = []
    for text in (
        "key",
        "key=k",
        "json:a.b",
        "json:a=b",
        "sha256",
        "xxh3=h",
        "json",
        "json:",
        "url",
        "",
        "key:a",
        "=a",
    ):
        try:
            lines.append(f"{text}: {parse_on(text)!r} {parse_on(text)}")
        except WrongJoin as error:
            lines.append(f"{text}: {error} ({error.text})")
    for texts in (
        ["txt=a"], ["TXT=a", "json:b=c"], [], ["txt"], ["=a"], ["txt="], ["json:=a"], ["txt:a=b"], ["a/b=c"], [".a=b"],
        ["__a=b"], ["jpg=a"], ["x.PNG=a"], ["txt=a", "txt=b"], ["json=a", "json:b=c"], ["json:b=c", "json:b=d"], ["a\1=b"],
    ):  # fmt: skip
        try:
            lines.append(f"{texts}: {' '.join(map(str, parse_set(texts)))}")
        except ValueError as error:
            lines.append(f"{texts}: {error}")
    values = (
        "A0f",
        "",
        "é",
        "\udcff",
        b"\xa0\xff",
        True,
        False,
        3,
        -1,
        2**64 - 1,
        12.0,
        1.5,
        float("nan"),
        None,
        [],
    )
    kinds = ("key", "json", "sha256", "xxh3")
    lines += [f"{value!a}: {[join_text(value, kind) for kind in kinds]!a}" for value in values]
    types = ("VARCHAR", "BIGINT", "UTINYINT", "DOUBLE", "BLOB")
    lines += [f"{each}: {[join_query('cell', each, kind) for kind in kinds]}" for each in types]
    check_text(GOLDEN, "joins", "\n".join(lines))


def test_values_are_set_in_json_of_all_shapes():
    lines = []
    for data in (
        "", " ", "{}", "{ }", '{"a": 1}', '{"a":1,"b":2}', '{\n  "a": 1,\n  "b": {}\n}', '{"a": {"b": 1, "c": [2]}}',
        '{"a.b": 1, "a": {}}', '{"a": 1, "a": 2}', "[]", "3", '{"a"}', '{"a": }', '{"a": 1 "b": 2}', '{"a": 1} x', "{1: 2}",
        '{"a": 1,}', "nonsense", "\N{BYTE ORDER MARK}{}",
    ):  # fmt: skip
        for values in ([("a", "é")], [("a.b", 1)], [("b", None), ("c.d.e", [1])]):
            for encoding in ("utf-8", "utf-16") if data == '{"a": 1}' else ("utf-8",):
                try:
                    texts = [
                        (name, json.dumps(value, ensure_ascii=False)) for name, value in values
                    ]
                    found = set_in_json(data.encode(encoding), texts).decode(encoding)
                except BrokenJson as error:
                    found = f"broken: {error}"
                lines.append(f"{data!a} {values}: {found!a}")
    check_text(GOLDEN, "json", "\n".join(lines))
