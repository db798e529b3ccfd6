"""The Ray cluster that tests of engines share.

All of its nodes know a user's scores.
"""

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.distributions import write_distribution
from tests.engines.cluster import ROOT, Cluster
from tests.models import own

KILLER = """
import os
import signal
from dataclasses import dataclass
from wdsflow.stages.scores.base import Score

@dataclass(frozen=True, kw_only=True)
class Killer(Score):
    name = "killer"
    tier = "header"
    kind = "number"

    def score(self, view):
        if view.key.endswith("7"):
            os.kill(os.getpid(), signal.SIGKILL)
        return 1
"""


@pytest.fixture(scope="package")
def scores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a user's scores.

    They are those of ``tests.models.own``, and one that kills the process that computes it.
    """
    folder = tmp_path_factory.mktemp("site")
    write_distribution(folder, "killer", {"wdsflow.scores": {"killer": "killer:Killer"}})
    (folder / "killer.py").write_text(KILLER)
    own.describe(folder)
    return folder


@pytest.fixture(scope="package")
def site(scores: Path) -> str:
    """The PYTHONPATH with which those scores are found."""
    return os.pathsep.join([str(ROOT), str(scores), os.environ.get("PYTHONPATH", "")])


@pytest.fixture(scope="package")
def cluster(site: str) -> Iterator[Cluster]:
    """A cluster of two nodes."""
    if find_spec("ray") is None:  # imported here it would set variables of the environment
        pytest.skip("Ray is not installed")
    nodes = Cluster(site)
    yield nodes
    nodes.close()
