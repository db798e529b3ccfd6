"""Grafts of random shards and tables, compared with a dictionary and Python's tarfile."""

import io
import json
import tarfile
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from tests.depth import cases
from tests.shards.archives import read_tar, write_tar
from wdsflow.joining.set_json import set_in_json
from wdsflow.reshaping.graft.graft_errors import AmbiguousJoin, NoMatch
from wdsflow.reshaping.graft.run_graft import graft_shards
from wdsflow.shards.caption_field import look_up

KEYS = st.sampled_from(["0", "1", "2", "3", "d/4", "é", "x y", "l" * 120])
TEXTS = st.one_of(
    st.none(), st.text(st.characters(exclude_categories=["Cs"]), max_size=5), st.just("z" * 3000)
)
SAMPLE = st.tuples(
    KEYS, st.lists(st.sampled_from(["jpg", "txt", "json", "cls", "TXT"]), min_size=1, unique=True)
)
SHARDS = st.lists(st.lists(SAMPLE, max_size=6), min_size=1, max_size=3)
ROWS = st.lists(
    st.tuples(st.one_of(st.none(), KEYS), TEXTS, st.one_of(st.none(), st.integers(-9, 9))),
    max_size=8,
)

Sample = tuple[str, dict[str, bytes]]


def samples_of(shard: list[tuple[str, list[str]]], number: int) -> list[Sample]:
    """No two neighbours have one key; a name differs from others by more than case."""
    found: list[Sample] = []
    for place, (key, fields) in enumerate(shard):
        if not found or found[-1][0] != key:
            lower = {field.lower(): field for field in fields}
            contents = {field: f"{number}{place}{field}".encode() for field in lower.values()}
            if "json" in contents:
                contents["json"] = json.dumps({"place": place, "n": [1.10]}).encode()
            found.append((key, contents))
    return found


def joined(
    shards: list[list[Sample]],
    rows: list[tuple[str | None, str | None, int | None]],
    ambiguous: str,
) -> tuple[list[list[Sample]], Counter[str]]:
    """The plain way: every sample, changed in place."""
    table = defaultdict(list)
    for key, text, number in rows:
        if key is not None:
            table[key].append((text, number))
    holders = Counter(key for shard in shards for key, _ in shard)
    used: set[str] = set()
    fates: Counter[str] = Counter()
    for shard in shards:
        for key, fields in shard:
            several = len(table[key]) > 1 or holders[key] > 1
            if not table[key]:
                fates["unmatched"] += 1
                continue
            if several and (ambiguous == "drop" or (ambiguous == "first" and key in used)):
                fates["ambiguous"] += 1
                continue
            if several and ambiguous == "refuse":
                raise AmbiguousJoin
            fates["matched"] += 1
            used.add(key)
            text, number = table[key][0]
            if text is not None:
                fields["TXT" if "TXT" in fields else "txt"] = text.encode()
            if number is not None:
                fields["json"] = json.dumps(
                    {**json.loads(fields.get("json", b"{}")), "number": number}
                ).encode()
    return shards, fates


@cases(12)
@given(SHARDS, ROWS, st.sampled_from(["refuse", "first", "each", "drop"]))
def test_a_graft_is_the_join_of_a_dictionary(shards, rows, ambiguous):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        contents = [samples_of(shard, number) for number, shard in enumerate(shards)]
        urls = [
            str(
                write_tar(
                    folder / f"{number}.tar",
                    [
                        (f"{key}.{field}", data)
                        for key, fields in shard
                        for field, data in fields.items()
                    ],
                    tarfile.PAX_FORMAT,
                )
            )
            for number, shard in enumerate(contents)
        ]
        types = {"key": pa.string(), "text": pa.string(), "number": pa.int64()}
        table = pa.Table.from_pylist(
            [dict(zip(types, row, strict=True)) for row in rows], pa.schema(types)
        )
        pq.write_table(table, folder / "t.parquet", row_group_size=3)
        options = {
            "on": "key",
            "fields": ["txt=text", "json:number=number"],
            "ambiguous": ambiguous,
        }
        try:
            wanted, fates = joined(contents, rows, ambiguous)
        except AmbiguousJoin:
            wanted, fates = None, Counter()
        try:
            report = graft_shards(urls, folder / "out", table=folder / "t.parquet", **options)
        except AmbiguousJoin:
            assert wanted is None
        except NoMatch:
            assert not fates["matched"]
        else:
            assert {
                each: report.total(each)
                for each in ("matched", "unmatched", "ambiguous", "without")
            } == {
                **{each: fates[each] for each in ("matched", "unmatched", "ambiguous")},
                "without": 0,
            }
            got = [
                read_tar(folder / "out" / f"{n}.tar") if shard else []
                for n, shard in enumerate(wanted)
            ]
            assert [[(name, plain(name, data)) for name, data in shard] for shard in got] == [
                [
                    (f"{key}.{field}", plain(field, data))
                    for key, fields in shard
                    for field, data in fields.items()
                ]
                for shard in wanted
            ]
            return
        assert not (folder / "out").exists()


def plain(name: str, data: bytes) -> object:
    return json.loads(data) if name.endswith("json") else data


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.floats(), st.integers(), st.text()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)
NAMES = st.one_of(
    st.sampled_from(["a", "a.b", "a.b.c", "b"]),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=4),
)


@cases(30)
@given(
    st.dictionaries(st.one_of(NAMES, st.text(max_size=3)), VALUES, max_size=4),
    NAMES,
    st.one_of(st.integers(), st.text(st.characters(exclude_categories=["Cs"]))),
    st.sampled_from([None, 1, 4]),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
    st.booleans(),
)
def test_a_value_set_in_json_is_read_again_and_nothing_else_changes(
    tree, name, value, indent, encoding, ascii_only
):
    text = json.dumps(tree, indent=indent, ensure_ascii=ascii_only)
    try:
        data = text.encode(encoding)
    except UnicodeEncodeError:  # half a surrogate pair that is not escaped
        return
    try:
        new = set_in_json(data, [(name, json.dumps(value))])
    except ValueError:
        first = name.partition(".")[0]
        assert "." in name  # a value on the way is no object
        assert first in tree
        return
    got = json.loads(new)
    assert look_up(got, name) == value
    top = name if name in tree or "." not in name else (name.partition(".")[0] or name)
    for other, before in tree.items():
        if other not in {top, name}:
            assert repr(got[other]) == repr(before)
    assert set(got) <= {*tree, top, name}
    assert new.decode(encoding).startswith(text.partition('"')[0][:1])


def test_a_graft_of_nothing_but_nulls_changes_no_byte_of_a_sample(tmp_path):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for number in range(3):
            info = tarfile.TarInfo(f"{number}.txt")
            info.size, info.mtime, info.uname = 3, 1234567.25, "me"
            tar.addfile(info, io.BytesIO(b"old"))
    (tmp_path / "0.tar").write_bytes(stream.getvalue())
    (tmp_path / "t.jsonl").write_text('{"key": "1", "c": null}\n')
    report = graft_shards(
        str(tmp_path / "0.tar"),
        tmp_path / "out",
        table=tmp_path / "t.jsonl",
        on="key",
        fields=["txt=c"],
    )
    assert report.values_not_set == ["txt=c"]
    assert (tmp_path / "out/0.tar").read_bytes() == stream.getvalue()[
        : (tmp_path / "out/0.tar").stat().st_size
    ]
