"""``wdsflow train`` from its first word to its exit status, with the real OpenCLIP."""

import importlib.util
import re
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.cli import shards
from tests.training.trainings import BATCHES, command, write_data

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("open_clip_train") is None, reason="needs OpenCLIP"
)


QUIET = ("--status-every", "0")
BLIND = (*QUIET, "--no-preflight")
ONE = ("--epochs", "1")
# No room to work ahead in: decoders must be at work when they are killed.
NARROW = (*QUIET, "--memory", "80MiB")
AFTER = {"again": "json", "changed": "killed"}  # what another run has left


class Runs(dict[str, tuple[str, str, Path]]):
    """Exit statuses, standard error and folder of each command.

    A command runs when its entry is first requested.
    """

    def __init__(self, folder: Path, drive: Callable[[list[dict[str, Any]]], list[str]]) -> None:
        super().__init__()
        self.folder = folder
        self.drive = drive
        write_data(folder)
        (folder / "json").mkdir()
        self.json = ("--train-data", shards.with_json(folder / "json", 4, 16))

    def __missing__(self, name: str) -> tuple[str, str, Path]:
        """Run the command, after the one whose output it finds."""
        if name in AFTER:
            self[AFTER[name]]
        [status] = self.drive([self.scenario(name)])
        self[name] = status, (self.folder / f"{name}.0.said").read_text(), self.folder
        return self[name]

    def scenario(self, name: str) -> dict[str, Any]:
        """Return what drive.py is to run."""
        here = partial(command, self.folder)
        long = ("--train-num-samples", "6400")
        words: dict[str, list[str]] = {
            "json": [*QUIET, "--caption", "json:caption", "--", *here("json", *ONE, *self.json)],
            "headspace": [*BLIND, "--headspace", "--", *here("headspace")],
            "again": [*BLIND, "--", *here("json")],
            "starving": [*BLIND, "--", *here("starving", *self.json)],
            "refused": [*QUIET, "--", *here("refused", *self.json)],
            "interrupted": [*QUIET, "--", *here("interrupted")],
            "killed": [*QUIET, "--checkpoint-every", "3", "--", *here("killed")],
            "changed": [*BLIND, "--", *here("killed", "--resume", "latest", "--batch-size", "4")],
            "no device": [*BLIND, "--", *here("no device", "--device", "nonsense")],
            "many workers": [*BLIND, "--", *here("many workers", "--workers", "9")],
            "decoder killed": [*NARROW, "--", *here("decoder killed", *long)],
            "other's decoder killed": [*NARROW, "--", *here("other's decoder killed", *long)],
        }
        ends = {
            "refused": {"ranks": 2},
            "interrupted": {"signal": signal.SIGINT, "at": 3},
            "killed": {"signal": signal.SIGKILL, "at": 5},
            "decoder killed": {"signal": signal.SIGKILL, "at": 3, "decoders_of": 0},
            "other's decoder killed": {
                "signal": signal.SIGKILL,
                "at": 3,
                "decoders_of": 1,
                "ranks": 2,
            },
        }
        return {"words": words[name], "name": str(self.folder / name), **ends.get(name, {})}


@pytest.fixture(scope="module")
def said(tmp_path_factory, drive):
    return Runs(tmp_path_factory.mktemp("launch"), drive)


def test_captions_in_json_train(said):
    status, text, folder = said["json"]
    assert status == "0", text[-3000:]
    assert "preflight: 4 shards, 64 samples, 64 usable" in text
    assert len((folder / "json.0").read_text().split()) == BATCHES
    assert (folder / "logs" / "json" / "checkpoints" / "epoch_1.pt").exists()


@pytest.mark.deep
def test_a_trial_tells_how_much_training_waits_for_data_and_saves_nothing(said):
    status, text, folder = said["headspace"]
    assert status == "0", text
    assert re.search(
        r"headspace of rank 0: training waits [\d.]+% of the time for data: .* \(6 batches\)", text
    )
    assert "Train Epoch: 1" not in text
    assert not list((folder / "logs" / "headspace").rglob("*.pt"))


def test_a_run_that_openclip_refuses_is_no_success(said):
    status, text, _ = said["again"]
    assert status == "1"
    assert "Experiment already exists" in text


def test_a_run_that_would_starve_is_refused_before_it_starts_by_the_first_of_two_ranks(said):
    status, text, folder = said["refused"]
    assert status == "1 1"
    assert text.count("no sample has a txt field") == 1
    assert (
        ": srun --ntasks 2 wdsflow train --caption json:caption --status-every 0 -- --train-data "
        in text
    )
    assert "--no-preflight" in text
    assert (
        (folder / "refused.1.said")
        .read_text()
        .splitlines()[-1]
        .startswith("wdsflow: the first rank refuses")
    )
    assert "ends as Python does" not in text
    assert not (folder / "logs" / "refused").exists()


def test_a_run_that_starves_all_the_same_ends_with_the_reason_and_no_traceback(said):
    status, text, _ = said["starving"]
    assert status == "1"
    assert "Traceback" not in text
    assert "no-caption" in text
    assert "ends as Python does" in text


def test_a_decoder_that_is_killed_ends_the_run_with_one_message(said):
    status, text, _ = said["decoder killed"]
    assert status == "1"
    assert "Traceback" not in text
    [line] = [line for line in text.splitlines() if line.startswith("wdsflow: ")]
    assert re.match(r"wdsflow: rank 0: decoder \d \(process \d+\) was ended by SIGKILL, ", line)
    assert "--resume latest" in text.splitlines()[-2]


@pytest.mark.deep
def test_a_decoder_of_another_rank_that_is_killed_ends_both_with_its_message(said):
    status, text, folder = said["other's decoder killed"]
    assert status == "1 1"
    for each in (text, (folder / "other's decoder killed.1.said").read_text()):
        assert "Traceback" not in each
        assert re.search(r"rank 1 of 2: decoder \d \(process \d+\) was ended by SIGKILL, ", each)


def test_an_interrupt_ends_with_status_130_and_no_traceback(said):
    status, text, folder = said["interrupted"]
    assert status == "130"
    assert "Traceback" not in text
    assert len((folder / "interrupted.0").read_text().split()) == 3


@pytest.mark.deep
def test_a_run_inside_of_an_epoch_does_not_go_on_with_other_batches(said):
    assert said["killed"][0] == "-9"
    status, text, _ = said["changed"]
    assert status == "1"
    assert "Traceback" not in text
    assert "cannot resume within epoch 0" in text
    assert "batch size: 8 then, 4 now" in text


def test_an_exception_of_openclip_keeps_its_traceback(said):
    status, text, _ = said["no device"]
    assert status == "1"
    assert "Traceback" in text
    assert "device" in text
    assert "nonsense" in text


@pytest.mark.deep
def test_a_feed_that_cannot_be_says_why_without_a_traceback(said):
    status, text, _ = said["many workers"]
    assert status == "1"
    assert "Traceback" not in text
    assert "total workers: 4 shards for 1 rank x 9 workers" in text
