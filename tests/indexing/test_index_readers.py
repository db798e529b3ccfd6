"""Sidecars, read by the programs that they are for."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli import shards
from tests.validate.rules.build import tar
from wdsflow.indexing import index_shards
from wdsflow.indexing.index_options import KINDS

PYTHON = os.environ.get(
    "WDSFLOW_INDEX_READERS", sys.executable
)  # of an environment that has Energon, webshart and DALI
SAMPLES, KEYS = 16, [f"{shard:02d}{sample:04d}" for shard in range(2) for sample in range(8)]

_ENERGON = """
import json, sqlite3, sys
from megatron.energon import DefaultTaskEncoder, WorkerConfig, get_loader, get_train_dataset
from megatron.energon.flavors.webdataset.itar import TarIndexReader
config = WorkerConfig(rank=0, world_size=1, num_workers=0)
data = get_train_dataset(
    sys.argv[1], worker_config=config, batch_size=None, shuffle_buffer_size=None, max_samples_per_sequence=None,
    repeat=False, task_encoder=DefaultTaskEncoder(),
)
with TarIndexReader(f"{sys.argv[1]}/0000.tar") as offsets:
    print(json.dumps([sorted(sample.__key__.split("/")[-1] for sample in get_loader(data)), list(offsets)]))
"""
_PREPARE = """
import sys
from megatron.energon.tools.prepare import command
command([sys.argv[1], "--non-interactive", "--split-ratio", "1,0,0", "--sample-type", "CaptioningSample",
         "--field-map", '{"image": "jpg", "caption": "txt"}', "--num-workers", "1"])
"""
_WEBSHART = """
import json, sys, webshart
loader = webshart.TarDataLoader(webshart.discover_dataset(source=sys.argv[1]))
print(json.dumps([[each.path, bytes(each.data).hex()] for each in loader]))
"""
_DALI = """
import json, sys
from nvidia.dali import fn, pipeline_def
tars = [f"{sys.argv[1]}/{n:04d}.tar" for n in range(2)]
@pipeline_def(batch_size=16, num_threads=1, device_id=None)
def pipeline():
    return tuple(fn.readers.webdataset(paths=tars, index_paths=[tar[:-3] + "idx" for tar in tars], ext=["jpg", "txt"]))
ready = pipeline()
ready.build()
images, texts = ready.run()
print(json.dumps([[bytes(each).hex() for each in texts], sum(len(bytes(each)) for each in images)]))
"""
_WDS2IDX = """
import sys
from wds2idx import IndexCreator
with IndexCreator(sys.argv[1] + "/0000.tar", sys.argv[1] + "/theirs.idx", verbose=False) as creator:
    creator.create_index()
"""


def has(module: str) -> bool:
    return subprocess.run([PYTHON, "-c", f"import {module}"], capture_output=True, check=False).returncode == 0


def program(text: str, folder: Path) -> Any:
    """Return what a program of the readers' environment prints."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [PYTHON, "-W", "ignore", "-c", text, str(folder)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert ended.returncode == 0, ended.stderr
    last = ended.stdout.strip().splitlines()[-1:]
    return json.loads(last[0]) if last and last[0].startswith("[") else None


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two shards, with all sidecars."""
    folder = tmp_path_factory.mktemp("indexed")
    shards.with_txt(folder)
    assert index_shards(str(folder), [kind for kind in KINDS if kind != "checksums"]).ok
    return folder


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # it leaves files open
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_openclip_takes_the_number_of_samples(indexed: Path) -> None:
    data = pytest.importorskip("open_clip_train.data", reason="OpenCLIP is not installed")
    assert data.get_dataset_size(f"{indexed}/{{0000..0001}}.tar") == (SAMPLES, 2)
    (indexed / "sizes.json").rename(indexed / "sizes")
    assert data.get_dataset_size(f"{indexed}/{{0000..0001}}.tar") == (SAMPLES, 2)  # from __len__
    (indexed / "sizes").rename(indexed / "sizes.json")


def test_timm_takes_the_split(indexed: Path) -> None:
    timm = pytest.importorskip("timm.data.readers.reader_wds", reason="timm is not installed")
    info = timm._parse_split_info("train", timm._load_info(str(indexed)))
    assert (info.num_samples, info.filenames, info.shard_lengths) == (SAMPLES, ("0000.tar", "0001.tar"), (8, 8))


def test_wids_reads_each_sample(indexed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wids = pytest.importorskip("wids.wids", reason="wids is not installed")
    monkeypatch.chdir(tmp_path)
    index = str(indexed / "shardindex.json")
    data = wids.ShardListDataset(index, cache_dir=str(tmp_path / "cache"), transformations=[])
    assert [data[number]["__key__"] for number in range(len(data))] == KEYS
    assert data[9][".txt"].read() == b"picture number 1 of 1"
    rows = json.loads((indexed / "shardindex.json").read_text())["shardlist"]
    for row in rows:
        assert row["nsamples"] == wids.compute_num_samples(str(indexed / row["url"]))
        assert row["filesize"] == (indexed / row["url"]).stat().st_size


def test_wids_opens_the_shards_of_an_index_that_is_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wids = pytest.importorskip("wids.wids", reason="wids is not installed")
    folder = tmp_path / "my shards"
    folder.mkdir()
    shards.with_txt(folder)
    monkeypatch.chdir(folder)
    index_shards(".", ["wids"], out="../index/of wids")
    (tmp_path / "moved.json").write_bytes((tmp_path / "index/of wids/shardindex.json").read_bytes())
    monkeypatch.chdir(tmp_path)
    data = wids.ShardListDataset("moved.json", cache_dir=str(tmp_path / "cache"), transformations=[])
    assert [data[number]["__key__"] for number in range(len(data))] == KEYS
    index_shards(str(folder), ["wids"], out=os.path.relpath(folder))
    rows = json.loads((folder / "shardindex.json").read_text())["shardlist"]
    assert [row["url"] for row in rows] == ["0000.tar", "0001.tar"]  # next to the shards: both can be moved


def test_wids_counts_odd_names_as_the_index_says(tmp_path: Path) -> None:
    wids = pytest.importorskip("wids.wids", reason="wids is not installed")
    names = ["__meta__.json", "a.jpg", "a.txt", "d.x/b.jpg", "d.x/b.txt", "README", ".hidden", "c.jpg", "a.seg.png"]
    names += ["e.jpg", "a.txt", "f.jpg", "c.jpg", "c.jpg"]  # again
    (tmp_path / "a.tar").write_bytes(tar([(name, b"1") for name in names]))
    index_shards(str(tmp_path), ["wids"])
    (row,) = json.loads((tmp_path / "shardindex.json").read_text())["shardlist"]
    assert row["nsamples"] == wids.compute_num_samples(str(tmp_path / "a.tar"))


@pytest.mark.deep
def test_energon_loads_and_would_write_the_same(indexed: Path, tmp_path: Path) -> None:
    if not has("megatron.energon"):
        pytest.skip("megatron-energon is not installed; WDSFLOW_INDEX_READERS names a Python that has it")
    keys, offsets = program(_ENERGON, indexed)
    assert keys == KEYS
    shards.with_txt(tmp_path)
    program(_PREPARE, tmp_path)
    assert (tmp_path / "0000.tar.idx").read_bytes() == (indexed / "0000.tar.idx").read_bytes()
    assert len(offsets) == 9
    assert rows(tmp_path) == rows(indexed)


def rows(folder: Path) -> list[object]:
    import sqlite3

    database = sqlite3.connect(folder / ".nv-meta/index.sqlite")
    tables = [sorted(database.execute(f"SELECT * FROM {table}")) for table in ("samples", "sample_parts")]
    schema = database.execute("SELECT name, type, tbl_name FROM sqlite_master ORDER BY 1").fetchall()
    database.close()
    return [*tables, schema]


@pytest.mark.deep
def test_webshart_reads_each_member(indexed: Path) -> None:
    if not has("webshart"):
        pytest.skip("webshart is not installed; WDSFLOW_INDEX_READERS names a Python that has it")
    found = dict(program(_WEBSHART, indexed))
    texts = {f"{key}.txt": f"picture number {n % 8} of {n // 8}".encode().hex() for n, key in enumerate(KEYS)}
    assert {name: data for name, data in found.items() if name.endswith("txt")} == texts
    assert len(found) == 2 * SAMPLES


@pytest.mark.deep
def test_dali_reads_each_sample_and_wds2idx_writes_the_same(indexed: Path) -> None:
    if not has("nvidia.dali"):
        pytest.skip("nvidia-dali is not installed; WDSFLOW_INDEX_READERS names a Python that has it")
    texts, size = program(_DALI, indexed)
    assert [bytes.fromhex(text) for text in texts] == [
        f"picture number {n % 8} of {n // 8}".encode() for n in range(16)
    ]
    assert size == SAMPLES * len(shards.jpeg())
    program(_WDS2IDX, indexed)
    theirs = indexed / "theirs.idx"
    assert theirs.read_bytes() == (indexed / "0000.idx").read_bytes()
    theirs.unlink()
