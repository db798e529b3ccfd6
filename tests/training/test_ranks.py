"""Two real ranks that talk through gloo."""

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("open_clip_train", reason="OpenCLIP is not installed")

from tests.servers import http_server
from tests.training.shards import arguments, as_text, jpeg, samples, texts, write_shards, write_tar
from tests.training.trainings import BATCHES, command, write_data
from wdsflow.shards.urls import expand
from wdsflow.training import ranks

LONG = 3600.0  # seconds: nothing of what is tested waits for so long
ROOT = Path(__file__).resolve().parent.parent.parent


def run_ranks(folder, data, stall_after, schedule="openclip"):
    """Run two ranks; return what each wrote to stdout, to stderr, and its exit status."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    running = []
    for rank in range(2):
        where = {
            "RANK": str(rank),
            "WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
        }
        with (
            (folder / f"{rank}.out").open("w") as output,
            (folder / f"{rank}.err").open("w") as errors,
        ):
            running.append(
                subprocess.Popen(
                    [sys.executable, "-m", "tests.training.rank", data, str(stall_after), schedule],
                    env={**os.environ, **where, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
                    cwd=ROOT,
                    stdout=output,
                    stderr=errors,
                )
            )
    try:
        codes = [process.wait() for process in running]
    finally:
        for process in running:
            process.kill()
            process.wait()
    return [
        ((folder / f"{rank}.out").read_text(), (folder / f"{rank}.err").read_text(), code)
        for rank, code in enumerate(codes)
    ]


@pytest.mark.deep
@pytest.mark.parametrize("starved", [0, 1])
def test_one_starved_rank_ends_both_with_the_message(tmp_path, starved):
    # In epoch 0 of seed 0 the first of two shards goes to rank 1.
    members = [samples(0, 40), [("a.jpg", jpeg(1)), ("a.json", b"{}")]]
    for number, some in enumerate(members if starved == 0 else members[::-1]):
        write_tar(tmp_path / f"{number:04d}.tar", some)
    found = run_ranks(tmp_path, f"{tmp_path}/{{0000..0001}}.tar", LONG)
    for _, errors, code in found:
        assert code != 0, found
        assert f"rank {starved} of 2" in errors, found
        assert "no-caption" in errors, found


@pytest.mark.deep
def test_a_rank_that_waits_too_long_ends_both(tmp_path):
    write_tar(tmp_path / "0000.tar", samples(0, 40))
    os.mkfifo(tmp_path / "0001.tar")
    data = "::".join(f"pipe:cat {tmp_path}/{name}.tar" for name in ("0000", "0001"))
    found = run_ranks(tmp_path, data, 4)
    for _, errors, code in found:
        assert code != 0, found
        assert re.search(r"no batch for [1-9]\d* s", errors), found


def listing_ranks(folder, data):
    """Return what two connected ranks print that read the same shards."""
    running = []
    for rank in range(2):
        words = ["-m", "tests.training.listing_rank", str(folder / "store"), str(rank), data]
        started = subprocess.Popen(
            [sys.executable, *words], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        running.append(started)
    printed = [process.communicate()[0] for process in running]
    assert [process.returncode for process in running] == [0, 0], printed
    return printed


def test_a_folder_of_a_server_is_listed_once_for_all_ranks(tmp_path):
    files = {}
    for number in range(2):
        members = samples(10 * number, 10)
        files[f"set/{number}.tar"] = write_tar(tmp_path / f"{number}.tar", members).read_bytes()
    files["set/"] = b'<a href="0.tar">0.tar</a><a href="1.tar">1.tar</a>'
    with http_server(files) as (url, log):
        expand(f"{url}/set/", allow_pipe=False)
        once = len(log.of("/set/"))
        log.clear()
        printed = listing_ranks(tmp_path, f"{url}/set/")
        assert len(log.of("/set/")) == once
    first, second = map(json.loads, printed)
    assert len(first) == len(second) == 10
    assert len({*first, *second}) == 20


def test_all_ranks_are_told_why_the_first_found_no_shards(tmp_path):
    with http_server({"set/": b"nothing"}) as (url, _):
        printed = listing_ranks(tmp_path, f"{url}/set/")
    assert printed[0] == printed[1]
    assert printed[0].startswith(f"refused: no shards match '{url}/set/': ")


def read_by_openclip(data, rank, epochs):
    """Return the captions that OpenCLIP's own loader gives one of two ranks.

    They are sorted within each epoch.
    """
    import open_clip
    from open_clip_train.data import get_wds_dataset

    args = arguments(
        train_data=data, train_num_samples=64, workers=1, batch_size=8, world_size=2, rank=rank
    )
    dataset = get_wds_dataset(
        args, open_clip.image_transform(32, is_train=False), True, tokenizer=as_text
    )
    found = []
    for epoch in range(epochs):
        dataset.set_epoch(epoch)
        found.append(sorted(text for batch in dataset.dataloader for text in texts(batch)))
    return found


@pytest.mark.deep
def test_two_ranks_of_torchrun_read_what_openclip_reads_and_end_with_equal_weights(
    tmp_path, monkeypatch
):
    import open_clip

    data = write_data(tmp_path)
    words = ["--status-every", "0", "--", *command(tmp_path, "torchrun", "--workers", "1")]
    launcher = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc_per_node",
        "2",
    ]
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [*launcher, str(ROOT / "tests/training/torchrun_rank.py"), str(tmp_path), *words],
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    ranks = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    assert ranks[0]["weights"] == ranks[1]["weights"]
    tokenizer = open_clip.get_tokenizer(f"local-dir:{tmp_path}/model")
    for rank, told in enumerate(ranks):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", "2")
        expected = read_by_openclip(data, rank, 2)
        assert [sorted(epoch) for epoch in told["epochs"]] == [
            sorted(tokenizer(epoch).tolist()) for epoch in expected
        ]


def test_ranks_as_torchrun_starts_them_share_out_the_shards(tmp_path, drive):
    write_data(tmp_path)
    epochs = 2
    words = [
        "--status-every",
        "0",
        "--no-preflight",
        "--",
        *command(tmp_path, "ranks", "--batch-size", "4"),
    ]
    [statuses] = drive(
        [{"words": words, "name": str(tmp_path / "ranks"), "ranks": 2, "launcher": "torchrun"}]
    )
    assert statuses == "0 0", (tmp_path / "ranks.0.said").read_text()[-3000:]
    given = []
    for rank in range(2):
        lines = (tmp_path / f"ranks.{rank}.captions").read_text().splitlines()
        batches = [json.loads(line) for line in lines]
        assert len(batches) == epochs * BATCHES
        half = len(batches) // epochs
        given.append(
            [{tuple(row) for batch in batches[at : at + half] for row in batch} for at in (0, half)]
        )
    assert [len(epoch) for rank in given for epoch in rank] == [32] * 4  # of 64 samples
    for first, second in zip(*given, strict=True):
        assert not first & second
    assert given[0][0] != given[0][1]  # the shards are dealt out again in each epoch
    import torch

    checkpoint = torch.load(
        tmp_path / "logs" / "ranks" / "checkpoints" / "epoch_2.pt", weights_only=True
    )
    states = checkpoint["wdsflow"]["ranks"]  # those of all ranks are in what the first one writes
    assert [state["feed"]["identity"]["rank"] for state in states] == [0, 1]


@pytest.mark.parametrize("rank", range(3))
def test_connected_ranks_each_do_a_part_of_the_work_and_others_do_all_of_it(rank, monkeypatch):
    asked = []

    def work(numbers):
        asked.append(list(numbers))
        return {number: number**2 for number in asked[-1]}

    squares = [0, 1, 4, 9, 16, 25, 36]
    assert ranks.divide_among_ranks(7, ranks.JobRank(0, 1), work) == squares
    # Ranks that nothing connects.
    assert ranks.divide_among_ranks(7, ranks.JobRank(rank, 3), work) == squares
    others = [{number: number**2 for number in range(each, 7, 3)} for each in range(3)]
    monkeypatch.setattr(ranks, "is_distributed", lambda: True)
    monkeypatch.setattr(
        ranks,
        "gather_from_ranks",
        lambda own: [own if each == rank else others[each] for each in range(3)],
    )
    assert ranks.divide_among_ranks(7, ranks.JobRank(rank, 3), work) == squares
    assert asked == [list(range(7)), list(range(7)), list(range(rank, 7, 3))]


@pytest.mark.deep
def test_balanced_ranks_get_equal_batches_and_together_each_sample_once(tmp_path):
    found = run_ranks(tmp_path, write_shards(tmp_path, [7, 13, 6]), LONG, "balanced")
    assert [code for _, _, code in found] == [0, 0], found
    sizes, given = [], []
    for output, _, _ in found:
        lines = [line.split()[1:] for line in output.splitlines() if line.startswith("batch")]
        sizes.append([int(line[0]) for line in lines])
        given += [text for line in lines for text in line[1:]]
    assert sizes[0] == sizes[1]
    everything = [
        f"{shard}/{number}" for shard, count in enumerate([7, 13, 6]) for number in range(count)
    ]
    assert sorted(given) == sorted(everything)
