"""A run whose model process is killed from outside ends with the bytes of an undisturbed run."""

import random
import threading

import psutil
import pyarrow.parquet as pq
import pytest

pytest.importorskip("open_clip", reason="OpenCLIP is not installed")

from tests.filtering.shards import digests
from tests.pictures import encoded, photo
from tests.processes import living_children
from tests.shards.archives import write_tar
from tests.stages.scores import tiny_models
from wdsflow import Recipe, RunOptions, filter_shards

SHARDS, SAMPLES = 4, 100
RUN = RunOptions(jobs=2, device="cpu")


@pytest.fixture
def calm(tmp_path_factory):
    """Shards, a recipe, and what comes of them."""
    root, chance = tmp_path_factory.mktemp("calm"), random.Random(4)
    for shard in range(SHARDS):
        entries = []
        for number in range(SAMPLES):
            words = " ".join(
                chance.choice(tiny_models.WORDS) for _ in range(chance.choice((1, 3, 9)))
            )
            image = encoded(photo(20 + number % 40, 30, number % 7), "PNG")
            entries += [
                (f"{shard}{number:04d}.png", image),
                (f"{shard}{number:04d}.txt", words.encode()),
            ]
        (root / "in").mkdir(exist_ok=True)
        write_tar(root / "in" / f"{shard:05d}.tar", entries)
    recipe = Recipe(
        where=f"clip_similarity(model='{tiny_models.clip(root / 'clip')}', pretrained='') > 0"
    )
    filter_shards([str(root / "in")], root / "out", recipe, RUN)
    return str(root / "in"), recipe, digests(root / "out")


def at_work(process):
    try:  # main thread, two that watch and accept, and one for each that asks
        return "wdsflow.models.server" in " ".join(process.cmdline()) and process.num_threads() > 3
    except psutil.Error:
        return False


def killer(ended, killed, ledgers):
    """Kill a process in the midst of the run, when a shard is done."""
    while not killed and not ended.wait(0.01):
        known = [each for each in living_children(recursive=True) if at_work(each)]
        if known and any(ledgers.glob("*.parquet")):
            known[0].kill()
            killed.append(known[0].pid)


@pytest.mark.deep
def test_a_process_killed_at_work_changes_no_byte(calm, tmp_path):
    source, recipe, whole = calm
    ended, killed = threading.Event(), []
    ledgers = tmp_path / "out" / ".wdsflow" / "ledger"
    thread = threading.Thread(target=killer, args=(ended, killed, ledgers))
    thread.start()
    try:
        report = filter_shards([source], tmp_path / "out", recipe, RUN)
    finally:
        ended.set()
        thread.join()
    assert killed
    assert not any(record.quarantined for record in report.records)
    found = digests(tmp_path / "out")
    shown = [name for name in whole if name.endswith((".tar", ".parquet", ".json", "__len__"))]
    assert {name: found.get(name) for name in shown} == {name: whole[name] for name in shown}
    keys = [
        row["key"]
        for ledger in ledgers.glob("*.parquet")
        for row in pq.read_table(ledger).to_pylist()
    ]
    assert len(keys) == len(set(keys)) == SHARDS * SAMPLES
