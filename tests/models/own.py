"""Scores of a user's own, for processes that are started: they find them by entry points, as they would a user's."""

import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from wdsflow.stages.scores.batch_score import BatchScore

_ENTRIES = """[wdsflow.scores]
letters = tests.models.own:Letters
brittle = tests.models.own:Brittle
brightest = tests.models.own:Brightest
faulty = tests.models.faulty:Faulty
faulty_batch = tests.models.faulty:FaultyBatch
faulty_plain = tests.models.faulty:FaultyPlain
"""


def install(folder: Path, monkeypatch: Any) -> None:
    """Let the scores of this module be found, here and in processes that are started."""
    from wdsflow.stages.scores.catalog import all_scores

    info = folder / "own_scores-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own-scores\nVersion: 1\n")
    (info / "entry_points.txt").write_text(_ENTRIES)
    root = Path(__file__).resolve().parents[2]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), str(root), *sys.path]))
    monkeypatch.syspath_prepend(str(folder))
    all_scores.cache_clear()


@dataclass(frozen=True, kw_only=True)
class Letters(BatchScore):
    """Letters of a caption, counted by a model."""

    name: ClassVar[str] = "letters"
    inputs: ClassVar[Any] = "caption"

    times: int = 1

    def load(self, device: str) -> Any:
        """Count the processes that load."""
        folder = os.environ.get("LOADED")
        if folder:
            (Path(folder) / str(os.getpid())).touch()
        return self.times

    def score(self, loaded: Any, batch: Sequence[Any]) -> Sequence[int]:
        """Count."""
        return [loaded * sum(letter.isalpha() for letter in text) for text in batch]


@dataclass(frozen=True, kw_only=True)
class Brittle(BatchScore):
    """Letters again; runs out of memory above ``most`` characters a batch, fails, or ends its process at a word."""

    name: ClassVar[str] = "brittle"
    inputs: ClassVar[Any] = "caption"

    most: int = 1 << 30
    fails: str = ""
    kills: str = ""
    poisons: str = ""

    def load(self, device: str) -> Any:
        """Load nothing, or fail at that."""
        if self.fails == "load":
            raise ValueError("no weights")

    def score(self, loaded: Any, batch: Sequence[Any]) -> Sequence[int]:
        """Count, or not."""
        import torch

        if len(batch) * max(len(text) for text in batch) > self.most:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        for text in batch:
            if self.fails and self.fails in text:
                raise ValueError(f"cannot read {text!r}")
            if self.poisons and self.poisons in text:
                raise RuntimeError("CUDA error: an illegal memory access was encountered")
            if self.kills and self.kills in text:
                os.kill(os.getpid(), signal.SIGKILL)
        return [sum(letter.isalpha() for letter in text) for text in batch]


@dataclass(frozen=True, kw_only=True)
class Brightest(BatchScore):
    """The brightest level of an image."""

    name: ClassVar[str] = "brightest"

    def load(self, device: str) -> Any:
        """Load nothing."""

    def score(self, loaded: Any, batch: Sequence[Any]) -> Sequence[int]:
        """Look."""
        return [int(picture.max()) for picture in batch]
