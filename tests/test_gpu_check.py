"""The checks for machines with a GPU, as far as they run without one."""

import json

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

from support.gpu_check.main import NO_GPU, main


@pytest.mark.deep
def test_batches_recover_under_a_fake_limit_of_memory_and_the_table_says_so(tmp_path, capsys):
    file = tmp_path / "found.json"
    assert main(["recovery", "random", "feed", "--cpu", "--quick", "--json", str(file)]) == 0
    found = json.loads(file.read_text())
    assert set(found["parts"]) == {"recovery", "random", "feed"}
    assert all(row["met"] for rows in found["parts"].values() for row in rows)
    printed = capsys.readouterr().out
    assert "| random items under a memory cap |" in printed
    assert "0 wrong" in printed


def test_without_a_gpu_nothing_is_said_to_be_checked(capsys):
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    assert main([]) == NO_GPU
    assert "nothing was checked" in capsys.readouterr().out
