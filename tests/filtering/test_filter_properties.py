"""Members of any tar are kept, dropped or quarantined, and none changes.

This holds whatever the tar holds and wherever it is cut.
"""

import tarfile
from collections import Counter
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from tests.depth import cases
from tests.shards.archives import Entry, read_tar, tar_bytes
from wdsflow import Recipe, RunOptions, filter_shards
from wdsflow.shards.source.base import single_shard
from wdsflow.shards.source.opening import open_source
from wdsflow.shards.tar.members import is_meta, split_name
from wdsflow.shards.tar.walk import Walk

KEYS = st.sampled_from(["a", "b", "c", "d/a", "d/é", "long/" + "k" * 110, "__x", "e.1/f"])
FIELDS = st.sampled_from(["jpg", "JPG", "txt", "json", "seg.png", "__"])
ODD = st.sampled_from(["README", "__info__", "__MACOSX__/a.jpg", "d/._a.jpg", ".hidden"])
NAMES = st.one_of(
    st.builds("{}.{}".format, KEYS, FIELDS), st.builds("{}.{}".format, KEYS, FIELDS), ODD
)
ENTRIES = st.lists(
    st.tuples(NAMES, st.binary(max_size=3).map(lambda data: data * 300)), max_size=14
)
FORMS = st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])


def sound(path: Path) -> list[tuple[int, Entry]]:
    """Return offsets and members of samples that lie whole in a tar, damaged as it may be."""
    with open_source(single_shard(str(path))) as source:
        return [
            (row[3], (row[0], source.read_at(row[2], row[1])))
            for batch in Walk(source)
            for row in batch.rows
            if row[4] == "file" and belongs(row[0])
        ]


def belongs(name: str) -> bool:
    dot_file = name.rpartition("/")[2].startswith(".")
    return not is_meta(name) and split_name(name)[0] is not None and not dot_file


def written(path: Path) -> list[Entry]:
    return [entry for entry in read_tar(path) if belongs(entry[0])] if path.exists() else []


@cases(12)
@given(
    ENTRIES,
    FORMS,
    st.one_of(st.none(), st.integers(0, 12_000)),
    st.sampled_from(["has('jpg')", "key != 'b'"]),
)
def test_every_member_of_a_sample_ends_in_one_place_unchanged(entries, form, cut, where):
    with TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "0.tar"
        path.write_bytes(tar_bytes(entries, form)[:cut])
        report = filter_shards(str(path), folder / "out", Recipe(where=where), RunOptions(jobs=0))
        members = sound(path)
        if report.failures:
            assert not members
            return
        rows = pq.read_table(folder / "out" / ".wdsflow" / "ledger" / "0.parquet").to_pylist()
        ranges = {(row["offset"], row["offset"] + row["size"]): row["outcome"] for row in rows}
        found: dict[str, list[Entry]] = {"kept": [], "dropped": [], "quarantined": []}
        for offset, entry in members:
            (outcome,) = (
                outcome for (start, end), outcome in ranges.items() if start <= offset < end
            )
            found[outcome].append(entry)
        assert written(folder / "out" / "0.tar") == found["kept"]
        assert written(folder / "out" / ".wdsflow" / "quarantine" / "0.tar") == found["quarantined"]
        counts = Counter(row["outcome"] for row in rows)
        assert report.total("kept") == counts["kept"]
        assert sum(report.merged("dropped").values()) == counts["dropped"]
        assert sum(report.merged("quarantined").values()) == counts["quarantined"]
        assert all(one[1] <= other[0] for one, other in pairwise(ranges))
