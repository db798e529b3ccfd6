"""A run that is killed and goes on ends where one that was not killed ends, bit by bit."""

import importlib.util
import io
import resource
import signal
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.training.trainings import BATCHES, command, write_data

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("open_clip_train") is None, reason="needs OpenCLIP"
)


class Case(NamedTuple):
    """A run that dies behind batch ``dies`` and continues behind batch ``goes_on``."""

    every: int  # steps between checkpoints
    dies: int
    goes_on: int
    own: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    ranks: int = 1


CASES = {
    "in a later epoch, gradients accumulated, evaluating": Case(
        3,
        BATCHES + 7,
        BATCHES + 4,
        more=("--accum-freq", "2", "--val-data", "DATA", "--val-num-samples", "16"),
    ),
    "in the first epoch, gradients accumulated": Case(3, 7, 6, more=("--accum-freq", "2")),
    "in a later epoch": Case(4, BATCHES + 5, BATCHES + 4),
    "at an epoch's beginning, evaluating": Case(
        100, BATCHES + 1, BATCHES, more=("--val-data", "DATA", "--val-num-samples", "16")
    ),
    "balanced, one file": Case(
        3, BATCHES + 6, BATCHES + 4, ("--schedule", "balanced"), ("--save-most-recent",)
    ),
    "on two ranks": Case(3, BATCHES + 5, BATCHES + 4, more=("--batch-size", "4"), ranks=2),
}


def hashes(folder: Path, name: str, rank: int) -> list[str]:
    return (folder / f"{name}.{rank}").read_text().split()


def trained(folder: Path, name: str) -> dict[str, Any]:
    import torch

    checkpoint = torch.load(
        folder / "logs" / name / "checkpoints" / "epoch_2.pt", weights_only=True
    )
    return {part: checkpoint[part] for part in ("epoch", "state_dict", "optimizer", "wdsflow")}


def same(one: Any, other: Any) -> bool:
    import torch

    if isinstance(one, torch.Tensor):
        return bool(torch.equal(one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def scenarios(folder: Path, case: Case, data: str, number: int) -> list[dict[str, Any]]:
    """A whole run, one that is killed, and the one that goes on."""
    more = [data if word == "DATA" else word for word in case.more]
    own = [
        "--status-every",
        "0",
        "--no-preflight",
        "--checkpoint-every",
        str(case.every),
        *case.own,
        "--",
    ]
    dying = {"signal": signal.SIGKILL, "at": case.dies}
    runs = [
        ("whole", "whole", {}, []),
        ("broken", "broken", dying, []),
        ("again", "broken", {}, ["--resume", "latest"]),
    ]
    return [
        {
            "words": [*own, *command(folder, f"{name}{number}", *more, *last)],
            "name": str(folder / f"{hashed}{number}"),
            "ranks": case.ranks,
            **end,
        }
        for hashed, name, end, last in runs
    ]


def test_a_checkpoint_that_a_full_disk_cannot_hold_is_named_and_the_one_before_stays(tmp_path):
    import torch

    from wdsflow.training.launch.checkpoints import save_checkpoint

    path = tmp_path / "epoch_latest.pt"
    save_checkpoint({"epoch": 1}, path)
    before, limit = path.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limit[1]))
    try:
        with pytest.raises(OSError, match="File too large") as caught:
            save_checkpoint({"epoch": 2, "weights": torch.zeros(100_000)}, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert caught.value.filename == str(path)
    assert [each.read_bytes() for each in tmp_path.iterdir()] == [before]


QUICK = "in a later epoch, gradients accumulated, evaluating"  # the case of the gate


def _marks(name):
    return [] if name == QUICK else [pytest.mark.deep]


def driven(drive, folder, names):
    """Run the scenarios of some cases in a folder."""
    data = write_data(folder)
    numbers = {name: number for number, name in enumerate(CASES)}
    todo = [each for name in names for each in scenarios(folder, CASES[name], data, numbers[name])]
    expected = [
        " ".join([status] * CASES[name].ranks) for name in names for status in ("0", "-9", "0")
    ]
    assert drive(todo) == expected
    return folder


@pytest.fixture(scope="module")
def quick(tmp_path_factory, drive):
    return driven(drive, tmp_path_factory.mktemp("resume"), [QUICK])


@pytest.fixture(scope="module")
def others(tmp_path_factory, drive):
    return driven(
        drive, tmp_path_factory.mktemp("resume"), [name for name in CASES if name != QUICK]
    )


@pytest.mark.parametrize(
    ("runs", "name"),
    [
        pytest.param(
            *(("quick", name) if name == QUICK else ("others", name)), id=name, marks=_marks(name)
        )
        for name in CASES
    ],
)
def test_a_run_that_was_killed_goes_on_with_the_very_next_batch(runs, name, request):
    """The weights and the optimizer at the end are the same too, bit by bit.

    Checkpoints from within an epoch are deleted.
    """
    folder = request.getfixturevalue(runs)
    case, number = CASES[name], list(CASES).index(name)
    for rank in range(case.ranks):
        batches = hashes(folder, f"whole{number}", rank)
        assert len(set(batches)) == 2 * BATCHES
        assert hashes(folder, f"broken{number}", rank) == batches[: case.dies]
        assert hashes(folder, f"again{number}", rank) == batches[case.goes_on :]
    whole, again = trained(folder, f"whole{number}"), trained(folder, f"broken{number}")
    assert [part for part in whole if not same(whole[part], again[part])] == []
    checkpoints = folder / "logs" / f"whole{number}" / "checkpoints"
    names = {path.name for path in checkpoints.iterdir() if path.name != "results.jsonl"}
    assert names - {"epoch_latest.pt"} == {"epoch_1.pt", "epoch_2.pt"}


def test_a_checkpoint_is_taken_apart_as_it_was_put_together(tmp_path):
    import torch

    from wdsflow.training.feed_options import ResumeError
    from wdsflow.training.launch.checkpoints import (
        ENTRY,
        CheckpointPosition,
        SavedFeed,
        remove_older_checkpoints,
        save_checkpoint,
        saved_feed,
    )

    states = [{"feed": {"batch": rank}, "random": None} for rank in range(2)]
    saved = SavedFeed(CheckpointPosition(3, 5, 29), states)
    path = tmp_path / saved.position.file_name
    save_checkpoint({"epoch": 3, ENTRY: saved.entry()}, path)
    found = saved_feed(torch.load(path, weights_only=True))
    assert found == saved
    assert [found.states_of_rank(rank, 2) for rank in range(2)] == states
    with pytest.raises(ResumeError, match="written by 2 ranks; now there are 4"):
        found.states_of_rank(0, 4)
    assert saved_feed({"epoch": 3}) is None
    with pytest.raises(ResumeError, match="newer wdsflow"):
        saved_feed({ENTRY: {"version": 2}})
    names = [
        "epoch_2.pt",
        "epoch_2.step_20.pt",
        "epoch_3.step_27.pt",
        "epoch_3.step_30.pt",
        "epoch_latest.pt",
        "other",
    ]
    for name in names:
        (tmp_path / name).touch()
    remove_older_checkpoints(path)
    left = {"epoch_2.pt", "epoch_3.step_29.pt", "epoch_3.step_30.pt", "epoch_latest.pt", "other"}
    assert {each.name for each in tmp_path.iterdir()} == left


def test_random_generators_continue_where_they_were():
    import random

    import numpy as np
    import torch

    from wdsflow.training.launch import checkpoints

    def draw():
        return (
            random.random(),
            random.gauss(0, 1),
            np.random.rand(),  # noqa: NPY002
            np.random.randn(),  # noqa: NPY002
            torch.rand(1).item(),
        )

    before = checkpoints.capture_random_states("cpu")
    random.gauss(0, 1)  # half of a pair, which Python and numpy keep
    np.random.randn()  # noqa: NPY002
    states = checkpoints.capture_random_states("cpu")
    try:
        drawn = draw()
        assert draw() != drawn
        stream = io.BytesIO()
        torch.save(states, stream)
        stream.seek(0)
        checkpoints.restore_random_states(torch.load(stream, weights_only=True), "cpu")
        assert draw() == drawn
    finally:
        checkpoints.restore_random_states(before, "cpu")
