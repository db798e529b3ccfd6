"""A feed that joins a table, compared with a feed of the shards that graft writes from it."""

import csv
import gzip
import json
import logging
import os
import pickle
import subprocess
import sys
import tarfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("open_clip_train", reason="OpenCLIP is not installed")

import open_clip

from tests.depth import cases
from tests.filtering.commands import run
from tests.reshaping.test_graft_properties import KEYS, SHARDS, TEXTS, samples_of
from tests.servers import http_server
from tests.shards.archives import write_tar as write_members
from tests.training.shards import arguments, as_text, jpeg, texts, write_shards, write_tar
from wdsflow import FeedOptions, get_data
from wdsflow import feed as make
from wdsflow.joining.index import index_cache, sorted_rows
from wdsflow.joining.index import row_index as index_format
from wdsflow.joining.index.index_cache import row_index
from wdsflow.joining.index.write_row_index import write_row_index
from wdsflow.joining.join_on import FieldToSet, parse_on
from wdsflow.joining.joined_fields import JoinedFields
from wdsflow.joining.row_use import RowUse
from wdsflow.joining.table_files import locate_table
from wdsflow.records import folder_lock
from wdsflow.reshaping.graft.graft_errors import AmbiguousJoin, NoMatch
from wdsflow.reshaping.graft.run_graft import graft_shards
from wdsflow.shards.source.base import single_shard
from wdsflow.stages.caption_sources import parse_captions
from wdsflow.table_files.errors import NoColumn
from wdsflow.training import StallError
from wdsflow.training.columns import FeedColumns
from wdsflow.training.feed.resume.resume_fixes import resume_fixes
from wdsflow.training.feed.resume.state import OtherJoin, check_state
from wdsflow.training.feed_options import FeedError, JoinError, ShardsError
from wdsflow.training.tokenized_captions import TokenizedCaptions
from wdsflow.training.workers.sample_work import SampleWork

ROOT = Path(__file__).resolve().parents[2]
TRANSFORM = open_clip.image_transform(32, is_train=True)
ROWS = st.lists(
    st.tuples(
        st.one_of(st.none(), KEYS),
        TEXTS,
        st.one_of(st.none(), st.integers(-9, 9)),
        st.one_of(st.none(), st.booleans(), st.floats(), st.binary(max_size=4), st.just([1, None])),
    ),
    max_size=12,
)
SETS = ["txt=text", "json:number=number", "cls=number", "txt=any", "json:a.b=text"]
FIELDS = [
    ("__key__", "txt"),
    ("__key__", "json"),
    ("__key__", "txt|json:number", "cls"),
    ("__key__", "cls", "bin"),
]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def feed(shards, **given):
    options = FeedOptions(
        status_every=0.0, decode_in="threads", decoders=1, **given.pop("more", {})
    )
    return make(
        shards, **{"batch_size": 3, "options": options, "rank": 0, "world_size": 1, **given}
    )


def outcome(shards, fields, epochs=2, **given):
    """The batches of some epochs, and the samples that were lost."""
    one = feed(shards, fields=fields, **given)
    try:
        batches = [[list(column) for column in batch] for _ in range(epochs) for batch in one]
        losses = {reason.first[:2]: reason.count for reason in one.tally.losses.values()}
        return batches, losses
    finally:
        one.close()


def write_table(folder: Path, kind: str, rows) -> Path:
    names = ("key", "text", "number", "any")
    path = folder / f"t.{kind}"
    if kind == "parquet":
        types = {"key": pa.string(), "text": pa.string(), "number": pa.int64()}
        columns = [dict(zip(types, row[:3], strict=True)) for row in rows]
        table = pa.Table.from_pylist(columns, pa.schema(types))
        values = [row[3] if isinstance(row[3], bytes) else None for row in rows]
        table = table.append_column("any", pa.array(values, pa.binary()))
        pq.write_table(table, path, row_group_size=3)
    elif kind == "jsonl":
        cells = [[None if isinstance(cell, bytes) else cell for cell in row] for row in rows]
        lines = [json.dumps(dict(zip(names, row, strict=True))) for row in cells]
        path.write_text("".join(f"{line}\n" for line in lines))
    else:
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(names)
            writer.writerows(rows)
    return path


def shards_of(folder: Path, shards) -> list[str]:
    urls = []
    for number, shard in enumerate(shards):
        members = [
            (f"{key}.{field}", data)
            for key, fields in samples_of(shard, number)
            for field, data in fields.items()
        ]
        urls.append(str(write_members(folder / f"{number}.tar", members, tarfile.PAX_FORMAT)))
    return urls


@cases(8)
@given(
    SHARDS,
    ROWS,
    st.sampled_from(["parquet", "csv", "jsonl"]),
    st.lists(st.sampled_from(SETS), min_size=1, max_size=3, unique_by=lambda text: text[:3]),
    st.sampled_from(["refuse", "first", "each", "drop"]),
    st.sampled_from(["key", "json:place=number"]),
    st.sampled_from(FIELDS),
    st.booleans(),
)
def test_a_joined_feed_is_the_feed_of_grafted_shards(
    tmp_path_factory, shards, rows, kind, sets, ambiguous, on, fields, drop
):
    folder = tmp_path_factory.mktemp("join")
    urls, table = shards_of(folder, shards), write_table(folder, kind, rows)
    more = {"join_ambiguous": ambiguous, "join_drop_unmatched": drop}
    request = {"table": table, "on": on, "fields": sets, "ambiguous": ambiguous}

    def joined(**given):
        return outcome(urls, fields, join=table, join_on=on, join_set=sets, more=more, **given)

    try:
        graft_shards(urls, folder / "out", **request, drop_unmatched=drop)
    except (AmbiguousJoin, NoMatch, NoColumn):
        with pytest.raises(JoinError):
            joined()
        return
    grafted = sorted(map(str, (folder / "out").glob("*.tar")))
    try:
        expected, losses = outcome(grafted, fields)
    except (ShardsError, StallError) as error:
        with pytest.raises(type(error)):
            joined()
        return
    batches, joined_losses = joined()
    assert batches == expected
    assert sum(joined_losses.values()) - joined_losses.get(("select", "no-row"), 0) <= sum(
        losses.values()
    )


def captions(folder: Path, shards: int, samples: int, text: str = "new {}") -> Path:
    """A table of new captions for the shards of ``write_shards``."""
    path = folder / "captions.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["key", "caption"])
        for shard in range(shards):
            for number in range(samples):
                key = f"{shard:03d}{number:04d}"
                writer.writerow([key, text.format(key)])
    return path


def openclip(data, epochs=2, **more):
    """The captions and pixels of OpenCLIP's batches."""
    given = {"workers": 2, "batch_size": 4, "train_num_samples": 24, "seed": 3}
    options = FeedOptions(status_every=0.0, decode_in="threads", decoders=2, **more)
    loader = get_data(
        arguments(train_data=data, **given),
        (TRANSFORM, TRANSFORM),
        tokenizer=as_text,
        options=options,
    )["train"].dataloader
    batches = [batch for _ in range(epochs) for batch in loader]
    loader.close()
    return [(texts(batch), pixels(batch).sum().item()) for batch in batches]


def pixels(batch):
    return batch["image"] if isinstance(batch, dict) else batch[0]


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"join_ambiguous": "each"},
        {"schedule": "balanced"},
        {"join_ambiguous": "first"},
        {"join_ambiguous": "drop", "schedule": "balanced"},
    ],
)
def test_openclip_orders_of_a_join_are_those_of_grafted_shards(tmp_path, more):
    data = write_shards(tmp_path / "shards", [9, 9, 9, 9])
    table = captions(tmp_path, 4, 8)
    ambiguous = more.get("join_ambiguous", "refuse")
    if ambiguous in ("first", "drop"):
        # A shard of the same keys, and a key that has two rows.
        (tmp_path / "shards/0002.tar").write_bytes((tmp_path / "shards/0001.tar").read_bytes())
        with open(table, "a", encoding="utf-8") as file:
            file.write("0000000,another\n")
    given = {"table": table, "on": "key", "fields": ["txt=caption"], "ambiguous": ambiguous}
    graft_shards(data, tmp_path / "out", **given)
    ours = openclip(data, join=str(table), join_set={"txt": "caption"}, **more)
    schedule = {name: value for name, value in more.items() if name == "schedule"}
    assert ours == openclip(data.replace("/shards/", "/out/"), **schedule)
    assert any(text.startswith("new") for batch, _ in ours for text in batch)


def test_a_run_resumes_only_with_the_same_table(tmp_path):
    data = write_shards(tmp_path / "shards", [9, 9])
    table = captions(tmp_path, 2, 9)
    given = {"join": table, "join_set": {"txt": "caption"}, "fields": ("__key__", "txt")}
    one = feed(data, **given)
    passing = iter(one)
    seen = [next(passing)[1] for _ in range(2)]
    state = json.loads(json.dumps(one.state_dict()))
    rest = [batch[1] for batch in passing]
    one.close()

    moved = tmp_path / "moved"
    moved.mkdir()
    again = feed(data, **{**given, "join": captions(moved, 2, 9)})
    again.load_state_dict(state)
    assert [batch[1] for batch in again] == rest
    assert len(seen + rest) == 6
    again.close()

    other = feed(data, **{**given, "join": captions(tmp_path, 2, 9, "other {}")})
    with pytest.raises(ValueError, match=r"source 1, join, table: '\w+' then, '\w+' now"):
        other.load_state_dict(state)
    other.close()


def test_a_resume_of_a_run_names_the_table():
    table = {"table": "a", "on": "key", "set": ["txt=caption"], "drop unmatched": False}
    options = FeedOptions(
        join="t.csv", join_set=("txt=caption",), argv=("--resume", "latest", "--name", "run")
    )
    ambiguous = replace(options, join_ambiguous="first", join_drop_unmatched=True)
    now = {"schedule": "openclip", "join": table}
    with pytest.raises(OtherJoin, match="join, table: 'b' then, 'a' now") as other:
        check_state({"version": 1, "identity": {**now, "join": {**table, "table": "b"}}}, now)
    new = "wdsflow train --join t.csv --join-set txt=caption -- --name run-2"
    fixes = resume_fixes(options, other.value)
    assert fixes == [f"to begin a new run with these samples: {new}"]
    with pytest.raises(OtherJoin) as without:
        check_state({"version": 1, "identity": {"schedule": "openclip"}}, now)
    for joined in (options, ambiguous):
        assert resume_fixes(joined, without.value)[0] == (
            "to resume without the table, as that run read its samples: "
            "wdsflow train -- --resume latest --name run"
        )


def test_a_join_that_does_not_match_is_refused_before_training(tmp_path):
    data = write_shards(tmp_path / "shards", [4, 4])
    table = tmp_path / "t.csv"
    sets = {"join": str(table), "join_set": {"txt": "caption"}}

    def refused(rows: str, match: str, **more):
        table.write_text("key,caption,id\n" + rows)
        with pytest.raises(JoinError, match=match):
            openclip(data, **{**sets, **more})

    refused(
        "0,a,0000000\n",
        r"(?s)none of 8 .* the samples have 0000000, .* the table has 0 in.*=\"key=id\"",
    )
    refused("0,a,1\n", r"none of 8 samples has a row", join_ambiguous="each")
    refused("0000001,a,\n0000001,b,\n", r"1 sample with several rows .* such as 0000001")
    refused("", "t.csv has no rows")
    refused("0000001,a,\n", "has no column 'text'.*\n.*it has", join_set={"txt": "text"})
    copy = tmp_path / "shards/0002.tar"
    copy.write_bytes((tmp_path / "shards/0001.tar").read_bytes())
    data = data.replace("0001}", "0002}")
    refused("0010001,a,\n0000001,a,\n", r"1 row with several samples each, such as 0010001")
    # One row is counted once, however many samples have it.
    (tmp_path / "shards/0003.tar").write_bytes(copy.read_bytes())
    data = data.replace("0002}", "0003}")
    refused("0010001,a,\n", r"1 row with several samples each, such as 0010001\n")
    with pytest.raises(
        ValueError, match="samples cannot be joined on 'sha256' while they are read"
    ):
        FeedOptions(**sets, join_on="sha256")
    with pytest.raises(ValueError, match="the join lacks a table"):
        FeedOptions(join_set={"txt": "caption"})
    with pytest.raises(FeedError, match=r"wdsflow\.feed takes join= for that"):
        feed(data, more=sets)
    with pytest.raises(FeedError, match=r"wdsflow\.feed takes join_on= for that"):
        feed(data, **sets, more={"join_on": "json:url"})


def test_a_refused_join_names_the_nearest_column_and_no_password(tmp_path):
    data = write_shards(tmp_path / "shards", [2])
    table = tmp_path / "t.csv"
    table.write_text("key,URL,caption\n0000001,u1,new\n")

    def message(**given):
        with pytest.raises(JoinError) as refused:
            feed(data, **{"join": table, "join_set": {"txt": "caption"}, **given})
        return str(refused.value)

    assert 'join_on="json:url=URL"' in message(join_on="json:url")
    places = ("__key__", "txt|join:captoin")
    assert 'fields=("__key__", "txt|join:caption")' in message(fields=places, join_set=())
    both = message(fields=places, join_set={"cls": "captoin"})
    assert 'fields=("__key__", "txt|join:caption")' in both
    assert 'join_set={"cls": "caption"}' in both
    files = {"cut.csv": b"key,caption\n0,a\n1,b,c\n", "utf16.csv": "key,a\n".encode("utf-16")}
    files |= {"semicolons.csv": b"key;caption\n0;a\n", "twice.csv": b"key,caption\n0000001,a\n" * 2}
    files |= {"other.csv": b"key,caption,id\nx,a,b\n", "table.txt": b""}
    with http_server(files) as (url, _):
        for name in files:
            text = message(join=f"{url}/{name}".replace("://", "://user:pass12word@"))
            assert "pass12word" not in text
            assert f"***@{url.partition('://')[2]}/{name}" in text
            assert not {"sed", "iconv"} & set(text.split())
            assert "copy-" not in text


def test_places_of_captions_with_weights_are_different(tmp_path):
    data = write_shards(tmp_path / "shards", [2])
    with pytest.raises(FeedError, match="'txt' is named twice"):
        feed(data, fields=("__key__", "txt|txt"), caption_probs=(0.5, 0.5))


def test_captions_for_evaluation_are_not_drawn(tmp_path):
    members = []
    for number in range(40):
        members += [(f"{number}.jpg", jpeg(number)), (f"{number}.txt", b"first")]
        members.append((f"{number}.json", b'{"alt": "second"}'))
    shard = str(write_tar(tmp_path / "0.tar", members))
    options = FeedOptions(caption="txt|json:alt", caption_probs="0.5,0.5", status_every=0.0)
    given = arguments(val_data=shard, val_num_samples=40, workers=1, batch_size=4)
    loader = get_data(given, (TRANSFORM, TRANSFORM), tokenizer=as_text, options=options)["val"]
    found = {text for batch in loader.dataloader for text in texts(batch)}
    loader.dataloader.close()
    assert found == {"first"}


def test_samples_without_a_row_are_lost_with_that_reason(tmp_path):
    members = [(f"{number}.jpg", jpeg(number)) for number in range(6)]
    write_tar(tmp_path / "0.tar", members)
    table = captions(tmp_path, 0, 0)
    table.write_text("key,caption\n1,one\n2,two\n3,\n")
    one = feed(
        str(tmp_path / "0.tar"),
        fields=("__key__", "txt"),
        join=table,
        join_set={"txt": "caption"},
        shuffle=0,
    )
    assert [list(column) for batch in one for column in batch] == [["1", "2"], ["one", "two"]]
    losses = {reason.first[:2]: reason.count for reason in one.tally.losses.values()}
    assert losses == {("select", "no-row"): 3, ("select", "no-caption"): 1}
    one.close()


@pytest.mark.parametrize("ambiguous", ["first", "drop"])
def test_ambiguous_samples_get_what_graft_gives_them(tmp_path, ambiguous):
    """Also in a mix, after a resume, and where a sample that is lost has the row first."""
    members = [("0.jpg", jpeg(0)), ("0.__bad__", b"x"), ("1.jpg", jpeg(1)), ("2.jpg", jpeg(2))]
    write_tar(tmp_path / "0.tar", members)
    members = [(f"{number}.jpg", jpeg(number)) for number in (3, 2, 0, 4, 5)]
    write_tar(tmp_path / "1.tar", members)
    data = f"{tmp_path}/{{0..1}}.tar"
    table = captions(tmp_path, 0, 0)
    table.write_text("key,caption\n0,zero\n1,one\n2,two\n3,three\n4,four\n4,again\n")
    more = {"join_ambiguous": ambiguous}
    given = {"join": table, "join_set": {"txt": "caption"}, "more": more}
    expected = {("1", "one"), ("3", "three")}
    if ambiguous == "first":
        expected |= {("2", "two"), ("4", "four")}
    graft = {"table": table, "on": "key", "fields": ["txt=caption"], "ambiguous": ambiguous}
    report = graft_shards(data, tmp_path / "out", **graft)
    grafted, _ = outcome(f"{tmp_path}/out/{{0..1}}.tar", ("__key__", "txt"))
    batches, losses = outcome(data, ("__key__", "txt"), **given)
    assert batches == grafted
    assert set(sorted_samples(batches)) == expected
    assert losses["select", "no-row"] == 2 * (7 - len(expected))
    assert report.total("matched") == len(expected) + (ambiguous == "first")
    # Without them, if that is requested.
    dropping = {**given, "more": {**more, "join_drop_unmatched": True}}
    batches, losses = outcome(data, ("__key__", "jpg"), epochs=1, **dropping)
    assert {keys for batch in batches for keys in batch[0]} == {key for key, _ in expected}

    one = feed(data, fields=("__key__", "txt"), batch_size=1, **given)
    passing = iter(one)
    seen = [next(passing)]
    state = json.loads(json.dumps(one.state_dict()))
    one.close()
    again = feed(data, fields=("__key__", "txt"), batch_size=1, **given)
    again.load_state_dict(state)
    assert set(sorted_samples([*seen, *again])) == expected
    again.close()
    other = feed(
        data,
        fields=("__key__", "txt"),
        batch_size=1,
        **{**given, "more": {"join_ambiguous": "each"}},
    )
    with pytest.raises(ValueError, match="the state is of another feed"):
        other.load_state_dict(state)
    other.close()


def test_decoders_in_other_processes_read_the_table(tmp_path):
    data = write_shards(tmp_path / "shards", [9])
    table, sets = captions(tmp_path, 1, 8), ["cls=key", "txt=caption", "json:recaption=caption"]
    graft_shards(data, tmp_path / "out", table=table, on="key", fields=sets)
    found = []
    for shards, joined in (
        (data, {"join": table, "join_set": sets}),
        (str(tmp_path / "out/0000.tar"), {}),
    ):
        options = FeedOptions(status_every=0.0, decoders=1)
        one = make(shards, batch_size=3, map=all_members, shuffle=0, options=options, **joined)
        found.append(list(one))
        one.close()
    assert found[0] == found[1]
    assert found[0][0][0].startswith("[('__key__', '0000000'), ('jpg', ")
    assert "('txt', b'new 0000000'), ('cls', b'0000000'), ('json', " in found[0][0][0]


def all_members(sample):
    return repr([item for item in sample.items() if item[0] != "__url__"])


def test_a_decoding_process_gets_the_join_without_what_only_the_listing_of_shards_needs(
    tmp_path: Path,
) -> None:
    table = tmp_path / "t.jsonl"
    table.write_text('{"key": "a", "caption": "new"}')
    on = parse_on("key")
    index = row_index(locate_table(table), "t.jsonl", on, ("caption",), tmp_path / "cache")
    shard = single_shard("0.tar")
    join = JoinedFields(
        index,
        "t.jsonl",
        on,
        (FieldToSet("txt", "", "caption"),),
        ("caption",),
        other_columns=("more",),
        prefixes={shard: "folder/"},
        withheld={shard: bytes(1 << 20)},
        use=RowUse(index, keeps_rows=True),
    )
    fields = FeedColumns((), parse_captions("txt"))
    work = SampleWork(None, fields, TokenizedCaptions(as_text), 100, join=join)

    data = pickle.dumps(work)

    assert len(data) < 10_000
    copy = pickle.loads(data).join
    assert (copy.prefixes, copy.withheld, copy.other_columns, copy.use) == ({}, {}, (), None)
    row = index.entry_of("a")
    assert copy.joined_members(row, {"txt": b"old"}, lambda _: 100) == {"txt": b"new"}


def test_an_index_is_made_once_and_finds_every_key(tmp_path, caplog):
    caplog.set_level(logging.INFO, "wdsflow.training")
    rows = {f"k{number}": f"caption {number} " + "x" * (number % 7 * 900) for number in range(3000)}
    table = tmp_path / "t.jsonl"
    lines = [json.dumps({"key": key, "caption": text}) for key, text in rows.items()]
    table.write_text("\n".join([*lines, json.dumps({"key": "k5", "caption": "again"})]))

    def index():
        given = (locate_table(table), "t.jsonl", parse_on("key"), ("caption",))
        return row_index(*given, tmp_path / "cache")

    first = index()
    second = pickle.loads(pickle.dumps(index()))
    assert caplog.text.count("join: indexed 3,001 rows of t.jsonl") == 1
    assert (second.rows, second.rows_with_value, second.entries, second.repeated_values) == (
        3001,
        3001,
        3000,
        1,
    )
    for key, text in rows.items():
        entry = second.entry_of(key)
        assert second.join_value(entry) == key
        assert second.row_values(entry) == [("text", text.encode())]
        assert second.has_several_rows(entry) == (key == "k5")
    assert second.entry_of("k3000") == second.entry_of("") == -1
    table.write_text("\n".join(lines))
    joins = tmp_path / "cache/wdsflow-joins"
    # Of a killed run.
    (joins / f"{'0' * 32}.01234567.tmp").mkdir()
    third = index()
    assert third.repeated_values == 0
    assert third.digest != first.digest
    assert sorted(path.suffix for path in joins.iterdir()) == ["", ""]


@pytest.mark.parametrize("long", [0, 20_000])
def test_a_large_table_is_sorted_in_parts(tmp_path, monkeypatch, long):
    names = [f"k{number // 2}" if number % 50 < 2 else f"n{number}" for number in range(6000)]
    texts = [f"{number} " + "x" * (long if number % 9 == 0 else 5) for number in range(6000)]
    table = tmp_path / "t.parquet"
    pq.write_table(pa.table({"key": names, "caption": texts}), table)
    folder = tmp_path / "a 'cache' [of] *"
    digests = []
    for part_bytes in (1 << 30, sum(map(len, texts)) // 7):
        monkeypatch.setattr(sorted_rows, "_PART_BYTES", part_bytes)
        cache = folder / str(part_bytes)
        given = (locate_table(table), "t.parquet", parse_on("key"), ("caption",))
        index = row_index(*given, cache)
        assert (index.rows, index.entries, index.repeated_values) == (6000, 5880, 120)
        files = [(index.folder / name).read_bytes() for name in ("hashes", "blocks", "offsets")]
        digests.append((index.digest, files))
        assert [path.name for path in (cache / "wdsflow-joins").iterdir()] == [index.folder.name]
    assert digests[0] == digests[1]
    assert index.row_values(index.entry_of("n9")) == [("text", texts[9].encode())]


def test_values_with_the_same_hash_have_entries_of_their_own(tmp_path, monkeypatch):
    by_length = sorted_rows._HASHED.replace("md5_number_lower", "length")
    monkeypatch.setattr(sorted_rows, "_HASHED", by_length)
    monkeypatch.setattr(index_format, "hash_of", len)
    rows = [("b", "2"), ("a", "1" * 9000), ("b", "3" * 9000), (None, "4"), ("c", "5")]
    table = tmp_path / "t.jsonl"
    lines = [json.dumps({"key": key, "caption": text}) for key, text in rows]
    table.write_text("\n".join(lines))
    given = (locate_table(table), "t.jsonl", parse_on("key"), ("caption",))
    index = row_index(*given, tmp_path / "cache")
    assert (index.rows, index.rows_with_value, index.entries, index.repeated_values) == (
        5,
        4,
        3,
        1,
    )
    found = [index.entry_of(key) for key in "abcd"]
    assert found == [0, 1, 2, -1]
    texts = [index.row_values(entry)[0][1] for entry in found[:3]]
    assert texts == [b"1" * 9000, b"2", b"5"]
    assert [index.has_several_rows(entry) for entry in found[:3]] == [False, True, False]


def test_an_index_is_repaired_and_nothing_else_in_its_folder_is_removed(tmp_path):
    table = captions(tmp_path, 1, 3)
    folder = tmp_path / "joins"
    old = time.time() - 40 * 24 * 3600
    for name in ("mosaic", "run.tmp", "wdsflow-joins/run.tmp", "wdsflow-joins/mosaic"):
        (folder / name).mkdir(parents=True)
        (folder / name / "index.json").write_text("{}")
        os.utime(folder / name / "index.json", (old, old))
        os.utime(folder / name, (old, old))
    unused = folder / "wdsflow-joins" / ("0" * 32)
    (folder / "wdsflow-joins/mosaic").rename(unused)

    def index():
        return row_index(locate_table(table), "t", parse_on("key"), ("caption",), folder)

    for name in ("hashes", "blocks", "offsets", "records", "index.json"):
        (index().folder / name).unlink()
        damaged = index()
        assert damaged.row_values(damaged.entry_of("0000001")) == [("text", b"new 0000001")]
    for name, data in (("records", b""), ("hashes", b"1234567"), ("index.json", b"{")):
        (index().folder / name).write_bytes(data)
        assert index().rows == 3
    assert not unused.exists()
    assert (folder / "mosaic/index.json").exists()
    assert (folder / "run.tmp/index.json").exists()
    assert (folder / "wdsflow-joins/run.tmp/index.json").exists()


def test_an_index_is_made_where_the_file_system_has_no_locks(tmp_path, monkeypatch):
    table = captions(tmp_path, 1, 3)
    given = (locate_table(table), "t", parse_on("key"), ("caption",), tmp_path)
    monkeypatch.setattr(folder_lock, "fcntl", None)

    def write_slowly(*words):
        monkeypatch.setattr(index_cache, "write_row_index", write_row_index)
        # Another process makes the same index meanwhile.
        row_index(*given)
        write_row_index(*words)

    monkeypatch.setattr(index_cache, "write_row_index", write_slowly)
    assert row_index(*given).rows == 3
    (folder,) = (tmp_path / "wdsflow-joins").iterdir()
    assert folder.name.isalnum()


def test_an_index_is_noted_as_used_in_each_epoch(tmp_path):
    table = captions(tmp_path, 1, 3)
    one = feed(
        write_shards(tmp_path / "shards", [3]),
        fields=("__key__", "txt"),
        join=table,
        join_set={"txt": "caption"},
    )
    (file,) = (tmp_path / "cache").rglob("index.json")
    for _ in range(2):
        os.utime(file, (1, 1))
        list(one)
        assert file.stat().st_mtime > 1
    one.close()


def test_a_sample_of_another_url_or_hash_than_its_row_is_lost(tmp_path):
    members = []
    for number, facts in enumerate([{"url": "u0"}, {"url": "u1", "sha256": "AB"}, {}, None]):
        members.append((f"{number}.jpg", jpeg(number)))
        if facts is not None:
            members.append((f"{number}.json", json.dumps(facts).encode()))
    data = str(write_tar(tmp_path / "0.tar", members))
    table = tmp_path / "t.csv"
    table.write_text("key,caption,url,sha256\n0,a,U0,\n1,b,u1,ab\n2,c,u2,\n3,d,u3,\n")
    one = feed(data, fields=("__key__", "txt"), join=table, join_set={"txt": "caption"}, shuffle=0)
    captions_of = {key: text for keys, found in one for key, text in zip(keys, found, strict=True)}
    assert captions_of == {"1": "b", "2": "c", "3": "d"}
    (loss,) = one.tally.losses.values()
    assert (loss.count, *loss.first[:3]) == (1, "join", "other-url", "0")
    one.close()
    # The json of the shard is compared, also where the table replaces it.
    sets = {"join_set": {"json": "caption"}, "fields": ("__key__", "json")}
    table.write_text("key,caption,url\n0,{},U0\n1,{},u1\n")
    batches, losses = outcome(data, join=table, epochs=1, shuffle=0, **sets)
    assert {key for batch in batches for key in batch[0]} == {"1", "2"}
    assert losses == {("join", "other-url"): 1, ("select", "no-row"): 1}
    assert loss.first.detail == "the table has U0, the sample u0"
    one.close()


def test_a_ledger_is_joined_by_shard_and_key(tmp_path):
    for name, text in (("a", "one two"), ("b", "three")):
        members = [
            ("0.jpg", jpeg(1)),
            ("0.txt", text.encode()),
            ("1.jpg", jpeg(2)),
            ("1.txt", b"x"),
        ]
        write_tar(tmp_path / f"{name}.tar", members)
    shards = [str(tmp_path / "a.tar"), str(tmp_path / "b.tar")]
    scores = ("measure", *shards, "-o", tmp_path / "scored", "--scores", "caption_words")
    assert run(*scores, "--jobs", 0).status == 0
    given = {"join": tmp_path / "scored", "join_set": {"words.bin": "caption_words"}}
    one = feed(shards, fields=("__key__", "txt", "words.bin"), shuffle=0, **given)
    samples = sorted(sample for batch in one for sample in zip(*batch, strict=True))
    words = [
        ("0", "one two", b"2.0"),
        ("0", "three", b"1.0"),
        ("1", "x", b"1.0"),
        ("1", "x", b"1.0"),
    ]
    assert samples == words
    one.close()


def test_several_captions_are_drawn_by_weight_for_each_sample_and_epoch(tmp_path):
    data = write_shards(tmp_path / "shards", [40, 40])
    table = captions(tmp_path, 2, 36)
    given = {
        "join": table,
        "fields": ("__key__", "txt|join:caption"),
        "caption_probs": (0.25, 0.75),
    }

    def drawn(epoch, ranks=1, batches=None, state=None, **more):
        found = {}
        for rank in range(ranks):
            one = feed(data, **{**given, "rank": rank, "world_size": ranks, **more})
            one.set_epoch(epoch)
            if state is not None:
                one.load_state_dict(state)
            passing = iter(one)
            for number, (keys, found_texts) in enumerate(passing, 1):
                found |= dict(zip(keys, found_texts, strict=True))
                if number == batches:
                    break
            last = one.state_dict()
            one.close()
        return found, last

    first, _ = drawn(0)
    second, _ = drawn(1)
    assert len(first) == 80
    new = [key for key, text in first.items() if text.startswith("new")]
    # Of 72 samples with a row, three in four.
    assert 42 <= len(new) <= 66
    assert sum(first[key] != second[key] for key in first) > 15
    assert drawn(0, ranks=3, batch_size=7)[0] == first
    part, state = drawn(0, batches=9)
    rest, _ = drawn(0, state=state)
    assert {**part, **rest} == first
    assert drawn(0, seed=1)[0] != first
    only, _ = drawn(0, caption_probs=(0, 1))
    assert sum(text.startswith("new") for text in only.values()) == 72
    with pytest.raises(FeedError, match="the join lacks a table: captions are in its column 'cap'"):
        feed(data, fields=("jpg", "join:cap"))
    with pytest.raises(FeedError, match="the join lacks fields to set"):
        feed(data, join=table)
    with pytest.raises(FeedError, match="caption_probs has 3 weights for 2 places"):
        drawn(0, caption_probs=(1, 2, 3))


def test_openclip_draws_captions_by_weight(tmp_path):
    data = write_shards(tmp_path / "shards", [9, 9, 9, 9])
    more = {"join": str(captions(tmp_path, 4, 9)), "caption": "txt|join:caption"}
    batches = openclip(data, caption_probs="0.5,0.5", **more)
    assert batches == openclip(data, caption_probs=(0.5, 0.5), **more)
    found = [text.startswith("new") for batch, _ in batches for text in batch]
    assert 0.25 < sum(found) / len(found) < 0.75


def ranks(
    folder: Path,
    data: str,
    *tables: Path,
    samples: Sequence[str] = (),
    ambiguous: str = "refuse",
) -> list[str]:
    """What two connected ranks print, with one table or one each."""
    script = ROOT / "tests/training/joined_rank.py"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    started = []
    for rank in range(2):
        table = tables[rank % len(tables)]
        words = [sys.executable, str(script), str(folder / "store"), str(rank), data, str(table)]
        words += [ambiguous, *samples]
        started.append(subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment))
    return [process.communicate(timeout=300)[0] for process in started]


@pytest.mark.deep
def test_connected_ranks_check_a_join_together_and_index_the_table_once(tmp_path):
    data = write_shards(tmp_path / "shards", [8, 8])
    table = captions(tmp_path, 2, 7)
    (tmp_path / "a").mkdir()
    printed = ranks(tmp_path / "a", data, table)
    assert "".join(printed).count("join: indexed 14 rows") == 1
    for text in printed:
        assert "14 of 16 samples have a row of" in text
        assert "14 of 14 rows used" in text
    found = []
    for text in printed:
        found += json.loads(text.partition("given: ")[2])
    assert len(found) == 16
    assert sum(caption == f"new {key}" for key, caption in found) == 14
    # Each rank lists one of two shards with the same keys.
    (tmp_path / "shards/0001.tar").write_bytes((tmp_path / "shards/0000.tar").read_bytes())
    (tmp_path / "b").mkdir()
    printed = ranks(tmp_path / "b", data, table)
    assert all("refused" in text and "7 rows with several samples each" in text for text in printed)


@pytest.mark.deep
@pytest.mark.parametrize("ambiguous", ["first", "drop"])
def test_connected_ranks_find_out_together_which_samples_are_ambiguous(tmp_path, ambiguous):
    data = write_shards(tmp_path / "shards", [8, 8, 8])
    # The ranks list different shards of the same keys.
    for number in (1, 2):
        same = (tmp_path / "shards/0000.tar").read_bytes()
        (tmp_path / f"shards/000{number}.tar").write_bytes(same)
    table = captions(tmp_path, 1, 6)
    alone = feed(
        data,
        fields=("__key__", "txt"),
        join=table,
        join_set={"txt": "caption"},
        more={"join_ambiguous": "first"},
    )
    expected = sorted(
        [key, text] for keys, found in alone for key, text in zip(keys, found, strict=True)
    )
    alone.close()
    assert sum(text == f"new {key}" for key, text in expected) == 6
    printed = ranks(tmp_path, data, table, ambiguous=ambiguous)
    if ambiguous == "drop":
        assert all(
            "refused" in text and "18 samples with a row, all of" in text for text in printed
        )
        return
    given = [json.loads(text.partition("given: ")[2]) for text in printed]
    assert sorted(given[0] + given[1]) == expected


@pytest.mark.deep
def test_ranks_with_other_tables_are_refused_where_samples_are_not_counted(tmp_path):
    data = write_shards(tmp_path / "shards", [8, 8])
    table = captions(tmp_path, 2, 7)
    (tmp_path / "b").mkdir()
    other = captions(tmp_path / "b", 2, 7, "other {}")
    assert all("opened" in text for text in ranks(tmp_path, data, table, samples=["16"]))
    printed = ranks(tmp_path / "b", data, table, other, samples=["16"])
    assert all("the table is not the same on all ranks" in text for text in printed)


def test_shards_and_table_may_be_on_a_server(tmp_path):
    data = write_shards(tmp_path / "shards", [9, 9])
    table = captions(tmp_path, 2, 8)
    files = {
        f"{number}.tar": (tmp_path / f"shards/{number:04d}.tar").read_bytes() for number in (0, 1)
    }
    files["captions.csv.gz"] = gzip.compress(table.read_bytes())
    sets = {"join_set": {"txt": "caption"}}
    fields = ("__key__", "txt")
    expected, _ = outcome(data, fields, join=table, **sets)
    with http_server(files) as (url, log):
        remote = f"{url}/captions.csv.gz"
        batches, losses = outcome(f"{url}/{{0..1}}.tar", fields, join=remote, **sets)
        assert (sorted_samples(batches), losses) == (sorted_samples(expected), {})
        table_requests = [asked.method for asked in log.asked if "captions" in asked.path]
        outcome(f"{url}/{{0..1}}.tar", fields, join=remote, **sets)
        again = [asked.method for asked in log.asked if "captions" in asked.path]
        cached = {"cache": str(tmp_path / "kept"), "cache_size": "1GiB"}
        kept, _ = outcome(f"{url}/{{0..1}}.tar", fields, join=remote, **cached, **sets)
        assert kept == batches
        # Of the unchanged table only the header is requested.
        assert len(again) - len(table_requests) < len(table_requests)
        with pytest.raises(JoinError, match=r"the table cannot be read: .*gone\.csv"):
            feed(data, join=f"{url}/gone.csv", **sets)


def sorted_samples(batches):
    return sorted(sample for batch in batches for sample in zip(*batch, strict=True))


def test_samples_are_joined_on_a_value_of_their_json(tmp_path):
    members = []
    for number in range(6):
        members.append((f"{number}.jpg", jpeg(number)))
        if number < 5:
            json_of = {"meta": {"url": f"http://a/{number}"}} if number else {"meta": 1}
            members.append((f"{number}.json", json.dumps(json_of).encode()))
    data = write_tar(tmp_path / "0.tar", members).read_bytes()
    (tmp_path / "0.tar.gz").write_bytes(gzip.compress(data))
    table = tmp_path / "t.csv"
    rows = [f"http://a/{number},caption {number}\n" for number in range(5)]
    table.write_text("URL,caption\n" + "".join(rows))
    given = {"join": table, "join_on": "json:meta.url=URL", "join_set": {"txt": "caption"}}
    expected = [(str(number), f"caption {number}") for number in range(1, 5)]
    with http_server({"0.tar": data}) as (url, _):
        for shard in (tmp_path / "0.tar", tmp_path / "0.tar.gz", f"{url}/0.tar"):
            batches, losses = outcome(str(shard), ("__key__", "txt"), epochs=1, **given)
            assert (sorted_samples(batches), losses) == (expected, {("select", "no-row"): 2})
    table.write_text("URL,caption\nhttp://b,x\n")
    match = "(?s)the samples have http://a/1, http://a/2, .*the table has http://b in column URL"
    with pytest.raises(JoinError, match=match):
        feed(str(tmp_path / "0.tar"), **given)


JSONS = [b'{"a": 1}', b"[1]", b"{", b"", b'{"a": {"b": 1}}', b'"text"', None, b"\xff\xfe{\0}\0"]


@pytest.mark.parametrize("fields", [("__key__", "txt"), ("__key__", "txt|json:a.b")])
def test_a_sample_whose_json_cannot_be_changed_keeps_all_of_its_members(tmp_path, fields):
    members = []
    for number, data in enumerate([*JSONS, *JSONS]):
        members.append((f"{number}.jpg", b"x"))
        if number < len(JSONS):
            members.append((f"{number}.txt", b"old"))
        if data is not None:
            members.append((f"{number}.json", data))
    shard = str(write_tar(tmp_path / "0.tar", members))
    table = captions(tmp_path, 0, 0)
    table.write_text("key,caption\n" + "".join(f"{n},new {n}\n" for n in range(2 * len(JSONS))))
    sets = ["txt=caption", "json:a.b=caption"]
    graft_shards(shard, tmp_path / "out", table=table, on="key", fields=sets)
    expected = outcome(str(tmp_path / "out/0.tar"), fields)
    assert outcome(shard, fields, join=table, join_set=sets) == expected
    assert expected[1]


@pytest.mark.deep
@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs Linux")
def test_the_memory_of_a_rank_does_not_grow_with_the_table(tmp_path):
    table = tmp_path / "t.parquet"
    keys = [f"{number * 7919 % 600_000:09d}" for number in range(600_000)]
    texts_of = [f"a caption of sample {key}, as long as captions are" for key in keys]
    pq.write_table(pa.table({"key": keys, "caption": texts_of}), table)
    index = row_index(
        locate_table(table), "t.parquet", parse_on("key"), ("caption",), tmp_path / "cache"
    )
    script = """
import re, sys
from wdsflow.joining.index.row_index import RowIndex

def resident():
    text = open("/proc/self/smaps_rollup").read()
    return int(re.search(r"Rss: +([0-9]+) kB", text)[1])

from pathlib import Path
index = RowIndex(Path(sys.argv[1]))
before = resident()
for number in range(0, 600_000, 3):
    entry = index.entry_of(f"{number:09d}")
    assert index.row_values(entry)[0][1].startswith(b"a caption of sample %09d" % number)
print(resident() - before)
"""
    words = [sys.executable, "-c", script, str(index.folder)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=True)
    # KiB, of an index of 53 MiB.
    assert int(done.stdout) < 4096
    assert sum(file.stat().st_size for file in index.folder.iterdir()) > 50 << 20
