"""Tables, files and folders in a store are packed as those of this machine are."""

from collections.abc import Iterator
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.packing.tables import jpeg, packed, usual_rows, write_lines
from tests.servers import http_server
from wdsflow import pack_shards
from wdsflow.packing.files.media_files import FIRST
from wdsflow.shards.source import retries
from wdsflow.shards.source.base import SourceError
from wdsflow.table_files.errors import TableError

STORE = "memory://pack"


@pytest.fixture
def store() -> Iterator[fsspec.AbstractFileSystem]:
    """Images in a store, one of them larger than what is held in memory."""
    system = fsspec.filesystem("memory")
    for number in range(3):
        data = jpeg(number) + (bytes(FIRST) if number == 1 else b"")
        system.pipe(f"/pack/img/{number}.jpg", data)
    yield system
    system.rm("/pack", recursive=True)


def test_files_of_a_store_are_packed(tmp_path: Path, store):
    names = ["img/0.jpg", f"{STORE}/img/1.jpg", "img/none.jpg", "memory://other/2.jpg"]
    table = write_lines(tmp_path / "t.jsonl", usual_rows(names))
    report = pack_shards(table, tmp_path / "out", root=STORE)
    assert dict(report.left_out) == {"missing file": 1, "outside of the root": 1}
    assert "row 4, column image: 'memory://other/2.jpg' is not in memory://pack; --root names" in (
        str(report)
    )
    assert [sample["jpg"] for sample in packed(tmp_path / "out").values()] == [
        jpeg(0),
        jpeg(1) + bytes(FIRST),
    ]


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_a_table_in_a_store_names_files_next_to_it(tmp_path: Path, store, kind):
    rows = usual_rows([f"img/{number}.jpg" for number in range(3)])
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / "t.parquet")
    else:
        write_lines(tmp_path / "t.jsonl", rows)
    store.pipe(f"/pack/t.{kind}", (tmp_path / f"t.{kind}").read_bytes())
    report = pack_shards(f"{STORE}/t.{kind}", tmp_path / "out")
    assert (report.samples, dict(report.left_out)) == (3, {})
    assert report.tables[0][0] == f"{STORE}/t.{kind}"


def test_a_folder_in_a_store_is_packed(tmp_path: Path, store):
    store.pipe("/pack/img/2.txt", b"two")
    report = pack_shards(f"{STORE}/img/", tmp_path / "out")
    assert dict(report.left_out) == {"no caption": 2}
    assert packed(tmp_path / "out") == {"2": {"jpg": jpeg(2), "txt": b"two"}}


def test_what_a_store_lacks_is_refused(tmp_path: Path, store, monkeypatch):
    monkeypatch.setattr(retries, "WAITS", (0.0,))
    table = write_lines(tmp_path / "t.jsonl", usual_rows(["img/0.jpg"]))
    with pytest.raises(ValueError) as refused:
        pack_shards(table, tmp_path / "out", root=STORE, size="1MB")
    assert str(refused.value) == (
        "--size needs the sizes of files, and those in memory://pack are not known: give --samples"
    )
    with http_server({}) as (url, _):
        for name in ("none.json", "none.parquet"):
            with pytest.raises(TableError) as missing:
                pack_shards(f"{url}/{name}", tmp_path / "out")
            assert str(missing.value).startswith(f"{url}/{name} cannot be read: ")
        folders = [f"{url}/img", "http://127.0.0.1:1/img", f"{STORE}/none", "nope://x/img"]
        for folder in folders:
            with pytest.raises(SourceError) as unlisted:
                pack_shards(folder, tmp_path / "out")
            assert str(unlisted.value).startswith(f"{folder} cannot be listed: ")
    assert not (tmp_path / "out").exists()
