"""A feed that joins a table, compared with a feed of the shards that graft writes from it."""

import csv
import json
import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.depth import cases
from tests.reshaping.test_graft_properties import KEYS, SHARDS, TEXTS, samples_of
from tests.shards.archives import write_tar
from wdsflow import FeedOptions
from wdsflow import feed as make
from wdsflow.reshaping.graft.graft_errors import AmbiguousJoin, NoMatch
from wdsflow.reshaping.graft.run_graft import graft_shards
from wdsflow.table_files.errors import NoColumn
from wdsflow.training import StallError
from wdsflow.training.feed_options import JoinError, ShardsError

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
        urls.append(str(write_tar(folder / f"{number}.tar", members, tarfile.PAX_FORMAT)))
    return urls


@cases(8)
@given(
    SHARDS,
    ROWS,
    st.sampled_from(["parquet", "csv", "jsonl"]),
    st.lists(st.sampled_from(SETS), min_size=1, max_size=3, unique_by=lambda text: text[:3]),
    st.sampled_from(["refuse", "each"]),
    st.sampled_from(FIELDS),
    st.booleans(),
)
def test_a_joined_feed_is_the_feed_of_grafted_shards(
    tmp_path_factory, shards, rows, kind, sets, ambiguous, fields, drop
):
    folder = tmp_path_factory.mktemp("join")
    urls, table = shards_of(folder, shards), write_table(folder, kind, rows)
    more = {"join_ambiguous": ambiguous, "join_drop_unmatched": drop}
    request = {"table": table, "on": "key", "fields": sets, "ambiguous": ambiguous}

    def joined(**given):
        return outcome(urls, fields, join=table, join_set=sets, more=more, **given)

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
