"""Resharded sets in the hands of real readers."""

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.reshaping.sets import entries, in_folder, keys_of, write_set
from tests.shards.archives import names, write_tar
from wdsflow.reshaping.reshard.run_reshard import reshard_shards

# webdataset leaves its files to the garbage collector.
pytestmark = [pytest.mark.webdataset, pytest.mark.filterwarnings("ignore::ResourceWarning")]


@pytest.mark.sample(1)
@pytest.mark.parametrize("order", [{}, {"shuffle": 1}, {"by_key": True}])
def test_webdataset_reads_every_sample_once_where_keys_repeat(tmp_path: Path, order):
    wds = pytest.importorskip("webdataset")
    (tmp_path / "in").mkdir()
    for shard in range(6):  # each shard counts from 0, as many writers do
        write_tar(
            tmp_path / f"in/{shard}.tar", entries([f"{n:04d}" for n in range(20)], str(shard))
        )
    reshard_shards(str(tmp_path / "in"), tmp_path / "out", samples=50, **order)
    paths = [str(path) for path in sorted((tmp_path / "out").glob("*.tar"))]
    got = list(wds.WebDataset(paths, shardshuffle=False))
    assert [sample["__key__"] for sample in got] == keys_of(in_folder(tmp_path / "out"))
    captions = Counter(sample["txt"].decode() for sample in got)
    assert captions == Counter(
        f"caption of {shard} {n:04d}" for shard in range(6) for n in range(20)
    )
    assert all(sample["jpg"].startswith(sample["txt"][len("caption of ") :]) for sample in got)


@pytest.mark.deep
def test_gnu_tar_lists_them_without_a_word(tmp_path: Path):
    reshard_shards(write_set(tmp_path / "in"), tmp_path / "out", shuffle=1)
    shards = sorted((tmp_path / "out").glob("*.tar"))
    assert shards
    for path in shards:
        done = subprocess.run(["tar", "-tf", path], capture_output=True, check=True)
        assert done.stdout.decode().split() == names(path)
        assert done.stderr == b""
