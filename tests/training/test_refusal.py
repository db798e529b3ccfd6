"""What the first rank decided, where the store that would tell is gone."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed")

# torch's own process group for tests: it talks to nobody,
# so that one process can be the second of two ranks.
GONE = """
from argparse import Namespace
from datetime import timedelta
from types import ModuleType
import torch.testing._internal.distributed.fake_pg
from torch import distributed
from wdsflow.training.ranks import connect_board
from wdsflow.training.launch.launch import share_decision

patience, long = timedelta(seconds=1), timedelta(hours=1)
server = distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
store = distributed.TCPStore("127.0.0.1", server.port, is_master=False, timeout=long, wait_for_workers=False)
store.set_timeout(patience)
distributed.init_process_group("fake", rank=1, world_size=2, store=store, timeout=patience)
del server
try:
    connect_board()
except RuntimeError:
    main = ModuleType("main")
    main.init_distributed_device = lambda args: "cpu"
    with share_decision(main, refused=False):
        print(main.init_distributed_device(Namespace()))
"""


@pytest.mark.deep
def test_a_store_that_cannot_be_connected_to_stops_no_rank():
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", GONE], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.stdout == "cpu\n", done.stderr
