"""Checkpoints with the state of the feed and of the random generators. Imports torch."""

import random
import re
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from wdsflow.shards.atomic import atomic_file
from wdsflow.text.words import how_many
from wdsflow.training.feed_options import ResumeError

# Version of random.getstate().
_PYTHON_VERSION = 3
ENTRY = "wdsflow"
# OpenCLIP's name.
LATEST = "epoch_latest.pt"
# OpenCLIP sorts names to find the latest. This one sorts after epoch_3.pt and before epoch_4.pt.
_NAME = re.compile(r"epoch_(\d+)(?:\.step_(\d+))?\.pt")


def capture_random_states(device: str | None = None) -> dict[str, Any]:
    """Return the random states of Python, numpy, torch and the device.

    They can be loaded with ``weights_only=True``.
    """
    _, numbers, normal = random.getstate()
    name, key, position, has_gauss, gauss = np.random.get_state(legacy=True)  # noqa: NPY002 - others draw from it
    states: dict[str, Any] = {
        "python": [list(numbers), normal],
        "numpy": [
            str(name),
            [int(word) for word in key],
            int(position),
            int(has_gauss),
            float(gauss),
        ],
        "torch": torch.get_rng_state(),
    }
    if device is not None and _is_cuda(device):
        states["cuda"] = torch.cuda.get_rng_state(device)
    return states


def restore_random_states(states: dict[str, Any], device: str | None = None) -> None:
    """Set the random generators to the states that ``capture_random_states`` returned.

    A device without a captured state keeps its own.
    """
    numbers, normal = states["python"]
    random.setstate((_PYTHON_VERSION, tuple(numbers), normal))
    name, key, *rest = states["numpy"]
    np.random.set_state((name, np.array(key, dtype=np.uint32), *rest))  # noqa: NPY002
    torch.set_rng_state(states["torch"])
    if "cuda" in states and device is not None and _is_cuda(device):
        torch.cuda.set_rng_state(states["cuda"], device)


def _is_cuda(device: str) -> bool:
    return device.startswith("cuda") and torch.cuda.is_available()


@dataclass(frozen=True, slots=True)
class CheckpointPosition:
    """The position of training within an epoch.

    Each rank has trained on ``batch`` batches of the epoch, after ``step`` optimizer steps.
    """

    epoch: int
    batch: int
    step: int

    @property
    def file_name(self) -> str:
        """The file name of its checkpoint, by which OpenCLIP finds the latest one."""
        return f"epoch_{self.epoch}.step_{self.step}.pt"


@dataclass(frozen=True)
class SavedFeed:
    """The entry of the feed in a checkpoint."""

    position: CheckpointPosition
    # {"feed": the loader's state, "random": states of the generators}
    ranks: list[dict[str, Any]]

    def states_of_rank(self, rank: int, world_size: int) -> dict[str, Any]:
        """Return the states of a rank. Raises ResumeError if the number of ranks differs."""
        if len(self.ranks) != world_size:
            written = how_many(len(self.ranks), "rank")
            raise ResumeError(
                f"the checkpoint was written by {written}; now there are {world_size}"
            )
        return self.ranks[rank]

    def entry(self) -> dict[str, Any]:
        """Return plain values for ``torch.save``."""
        return {"version": 1, "position": asdict(self.position), "ranks": self.ranks}


def saved_feed(checkpoint: object) -> SavedFeed | None:
    """Return the feed's entry in a loaded checkpoint.

    None if the checkpoint was written without wdsflow.
    """
    entry = checkpoint.get(ENTRY) if isinstance(checkpoint, dict) else None
    if entry is None:
        return None
    if entry.get("version") != 1:
        raise ResumeError(
            f"the checkpoint is of a newer wdsflow (version {entry.get('version')} of its entry)"
        )
    return SavedFeed(CheckpointPosition(**entry["position"]), list(entry["ranks"]))


def save_checkpoint(checkpoint: object, path: Path) -> None:
    """Write a checkpoint atomically and sync it. Raises OSError, which names ``path``."""
    # A hidden name sorts before all checkpoints, in case a remote copy of the folder keeps it.
    with atomic_file(path, hidden=True) as file, open(file, "wb", closefd=False) as stream:
        try:
            torch.save(checkpoint, stream)
        except RuntimeError as error:
            # For a full disk, torch's message is "unexpected pos".
            raise (error.__context__ if isinstance(error.__context__, OSError) else error) from None


def remove_older_checkpoints(newest: Path) -> None:
    """Remove checkpoints from within epochs that are older than ``newest``, in its folder.

    OpenCLIP or wdsflow wrote ``newest``.
    """
    position = _position(newest.name)
    if position is None:
        return
    for path in newest.parent.glob("epoch_*.step_*.pt"):
        other = _position(path.name)
        if other is not None and other < position:
            with suppress(FileNotFoundError):
                path.unlink()


def _position(name: str) -> tuple[int, int] | None:
    """Return the number of completed epochs and of steps within the next.

    >>> _position("epoch_3.step_120.pt"), _position("epoch_4.pt"), _position("epoch_latest.pt")
    ((3, 120), (4, 0), None)
    """
    match = _NAME.fullmatch(name)
    return (int(match[1]), int(match[2] or 0)) if match else None
