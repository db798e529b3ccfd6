"""Processes of loaders are ranks of a group, as those of a training script."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

PROGRAM = """
from torch import distributed
from torch.distributed import init_process_group
from torch.distributed import init_process_group as begin
from wdsflow.validate.pipeline.loader.loader_messages import LoaderRequest
from wdsflow.validate.pipeline.loader.loader_ranks import join_group, set_rank

request = LoaderRequest((), rank={rank}, ranks={ranks}, rendezvous={rendezvous!r})
set_rank(request)
error = join_group(request)
assert not error, error
# What a script does together with its loader: it gets the group that there is.
init_process_group("nccl")
begin("nccl")
distributed.init_process_group("nccl")
print(distributed.get_rank(), distributed.get_world_size(), distributed.get_backend())
distributed.destroy_process_group()
"""


@pytest.mark.parametrize("ranks", [1, 2])
def test_each_process_is_its_rank_of_the_group(ranks: int, tmp_path: Path) -> None:
    rendezvous = str(tmp_path / "meet") if ranks > 1 else ""
    running = [
        subprocess.Popen(
            [
                sys.executable,
                "-c",
                PROGRAM.format(rank=rank, ranks=ranks, rendezvous=rendezvous),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(ranks)
    ]
    printed = [process.communicate()[0] for process in running]
    assert printed == [f"{rank} {ranks} gloo\n" for rank in range(ranks)]
