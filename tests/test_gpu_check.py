"""The checks for machines with a GPU, as far as they run without one."""

import json

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

from support.gpu_check.main import NO_GPU, main


@pytest.mark.deep
def test_batches_recover_under_a_fake_limit_of_memory_and_the_table_says_so(tmp_path, capsys):
    file = tmp_path / "found.json"
    parts = ["recovery", "cap", "towers", "random", "feed"]
    assert main([*parts, "--cpu", "--quick", "--limit", "900", "--json", str(file)]) == 0
    found = json.loads(file.read_text())
    assert set(found["parts"]) == set(parts)
    for part in ("recovery", "cap", "random"):
        assert all(row["met"] for row in found["parts"][part])
    assert found["parts"]["feed"][0]["met"]
    printed = capsys.readouterr().out
    assert "| random items under a memory cap |" in printed
    assert "0 wrong" in printed


def test_what_no_time_is_left_for_is_said_to_be_left_out(tmp_path, capsys):
    file = tmp_path / "found.json"
    assert main(["random", "feed", "--cpu", "--quick", "--limit", "1", "--json", str(file)]) == 0
    rows = [row for rows in json.loads(file.read_text())["parts"].values() for row in rows]
    assert [row["what"] for row in rows] == ["random", "feed"]
    assert all("run it alone: scripts/gpu_check" in row["value"] for row in rows)
    assert capsys.readouterr().out.count("left out") == 4  # as it is known, and in the table


def test_without_a_gpu_nothing_is_said_to_be_checked(capsys):
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    assert main([]) == NO_GPU
    assert "nothing was checked" in capsys.readouterr().out
