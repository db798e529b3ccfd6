"""Sidecars, read by the programs that they are for."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli import shards
from wdsflow import index_shards
from wdsflow.indexing.index_options import KINDS

# Of an environment that has Energon.
PYTHON = os.environ.get("WDSFLOW_INDEX_READERS", sys.executable)
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


def has(module: str) -> bool:
    return (
        subprocess.run(
            [PYTHON, "-c", f"import {module}"], capture_output=True, check=False
        ).returncode
        == 0
    )


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
    assert index_shards(str(folder), KINDS).ok
    return folder


# It leaves files open.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
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
    assert (info.num_samples, info.filenames, info.shard_lengths) == (
        SAMPLES,
        ("0000.tar", "0001.tar"),
        (8, 8),
    )


@pytest.mark.deep
def test_energon_loads_and_would_write_the_same(indexed: Path, tmp_path: Path) -> None:
    if not has("megatron.energon"):
        pytest.skip(
            "megatron-energon is not installed; WDSFLOW_INDEX_READERS names a Python that has it"
        )
    keys, offsets = program(_ENERGON, indexed)
    assert keys == KEYS
    shards.with_txt(tmp_path)
    program(_PREPARE, tmp_path)
    assert (tmp_path / "0000.tar.idx").read_bytes() == (indexed / "0000.tar.idx").read_bytes()
    assert len(offsets) == 9
    assert rows(tmp_path) == rows(indexed)
    (indexed / ".nv-meta/index.sqlite").rename(tmp_path / "index.sqlite")
    assert program(_ENERGON, indexed) == [keys, offsets]


def rows(folder: Path) -> list[object]:
    import sqlite3

    database = sqlite3.connect(folder / ".nv-meta/index.sqlite")
    tables = [
        sorted(database.execute(f"SELECT * FROM {table}")) for table in ("samples", "sample_parts")
    ]
    schema = database.execute(
        "SELECT name, type, tbl_name FROM sqlite_master ORDER BY 1"
    ).fetchall()
    database.close()
    return [*tables, schema]
