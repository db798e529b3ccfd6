"""A real Ray cluster of two nodes with a core each.

It is in a separate process, because Ray installs handlers and threads.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


class Cluster:
    """Starts the cluster.

    ``path`` is its PYTHONPATH. All of Ray's files are in a folder that is removed with it.
    """

    def __init__(self, path: str) -> None:
        # The process of the cluster has other paths, and imports this file too.
        from tests.fork_server import new_python

        self.folder = tempfile.mkdtemp(prefix="ray-")  # names of sockets may not be long
        self.environment = {
            "PYTHONPATH": path,
            "RAY_TMPDIR": self.folder,
            "RAY_USAGE_STATS_ENABLED": "0",
        }
        with new_python():
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.engines.cluster"],
                cwd=ROOT,
                env=os.environ | self.environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        self.add_node()

    def lose_node(self) -> None:
        """Kill the second node."""
        self._ask("lose")

    def add_node(self, gpus: int = 0, cores: int = 1) -> None:
        """Start a second node, whose GPUs are pretended: Ray only counts them."""
        self._ask(f"add {gpus} {cores}")

    def _ask(self, what: str) -> None:
        self._process.stdin.write(f"{what}\n")
        self._process.stdin.flush()
        self.address, raylet = self._process.stdout.readline().split()
        self.raylet = int(raylet)  # of the second node

    def close(self) -> None:
        """End it, and remove its folder."""
        self._process.communicate()
        shutil.rmtree(self.folder, ignore_errors=True)


def serve() -> None:
    """Be the process of a cluster: answer until stdin ends."""
    from ray.cluster_utils import Cluster as Nodes

    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    nodes: Any = Nodes(initialize_head=True, head_node_args={"num_cpus": 1})
    node: Any = None
    raylet = 0
    for line in sys.stdin:
        if line.strip() == "lose":
            nodes.remove_node(node, allow_graceful=False)
        else:
            _, gpus, cores = line.split()
            node = nodes.add_node(num_cpus=int(cores), num_gpus=int(gpus))
            raylet = node.all_processes["raylet"][0].process.pid
        print(nodes.address, raylet, file=answers)
    nodes.shutdown()


if __name__ == "__main__":
    serve()
