"""The checks for machines with a GPU, as far as they run without one."""

import json
import random

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

from support.gpu_check.main import NO_GPU, main
from support.gpu_check.similarity import steady_rate


@pytest.mark.deep
def test_batches_recover_under_a_fake_limit_of_memory_and_the_table_says_so(tmp_path, capsys):
    file = tmp_path / "found.json"
    parts = ["throughput", "recovery", "cap", "towers", "random", "feed"]
    assert main([*parts, "--cpu", "--quick", "--limit", "900", "--json", str(file)]) == 0
    found = json.loads(file.read_text())
    assert set(found["parts"]) == set(parts)
    for part in ("recovery", "cap", "random"):
        assert all(row["met"] for row in found["parts"][part])
    assert found["parts"]["feed"][0]["met"]
    assert found["parts"]["throughput"][1]["details"]["ours"]["steady"] > 0
    printed = capsys.readouterr().out
    assert "| random items under a memory cap |" in printed
    assert "0 wrong" in printed


@pytest.mark.parametrize("workers", [1, 4, 16])
def test_the_steady_rate_counts_no_shard_of_the_start_or_the_end(workers):
    """Each worker takes 1 to 1.2 seconds for a shard of 10 samples.

    Some workers begin late, and the last one ends alone.
    """
    rng = random.Random(workers)
    ends = []
    for worker in range(workers):
        now = worker / workers
        for _ in range(200):
            now += rng.uniform(1.0, 1.2)
            ends.append(now)
    ends = [*sorted(ends), 400.0]
    rate = steady_rate(ends, [10] * len(ends), workers)
    assert rate == pytest.approx(10 * workers / 1.1, rel=0.03)


def test_a_steady_rate_needs_shards_between_the_start_and_the_end():
    assert steady_rate([1.0, 2.0, 3.0, 4.0], [10] * 4, 2) == 0


def test_what_no_time_is_left_for_is_said_to_be_left_out(tmp_path, capsys):
    file = tmp_path / "found.json"
    assert main(["random", "feed", "--cpu", "--quick", "--limit", "1", "--json", str(file)]) == 0
    rows = [row for rows in json.loads(file.read_text())["parts"].values() for row in rows]
    assert [row["name"] for row in rows] == ["random", "feed"]
    assert all("run it alone: scripts/gpu_check" in row["value"] for row in rows)
    assert capsys.readouterr().out.count("left out") == 4  # as it is known, and in the table


def test_without_a_gpu_nothing_is_said_to_be_checked(capsys):
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    assert main([]) == NO_GPU
    assert "nothing was checked" in capsys.readouterr().out
