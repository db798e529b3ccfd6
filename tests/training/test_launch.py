"""``wdsflow train`` from its first word to its exit status, with the real OpenCLIP."""

import importlib.util
import re
import signal
from pathlib import Path

import pytest

from tests.cli import shards
from tests.training.trainings import BATCHES, command, drive, write_data

pytestmark = pytest.mark.skipif(importlib.util.find_spec("open_clip_train") is None, reason="needs OpenCLIP")


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """Exit statuses and standard error, by what the command was."""
    folder = tmp_path_factory.mktemp("launch")
    write_data(folder)
    in_json = folder / "json"
    in_json.mkdir()
    json_data = ["--train-data", shards.with_json(in_json, 4, 16)]
    quiet = ["--status-every", "0"]
    blind = [*quiet, "--no-preflight"]
    one = ["--epochs", "1"]
    words = {
        "json": [*quiet, "--caption", "json:caption", "--", *command(folder, "json", *one, *json_data)],
        "again": [*blind, "--", *command(folder, "json")],
        "starving": [*blind, "--", *command(folder, "starving", *json_data)],
        "refused": [*quiet, "--", *command(folder, "refused", *json_data)],
        "interrupted": [*quiet, "--", *command(folder, "interrupted")],
        "killed": [*quiet, "--checkpoint-every", "3", "--", *command(folder, "killed")],
        "changed": [*blind, "--", *command(folder, "killed", "--resume", "latest", "--batch-size", "4")],
        "no model": [*blind, "--", *command(folder, "no model", "--model", "nonsense")],
        "many workers": [*blind, "--", *command(folder, "many workers", "--workers", "9")],
    }
    ends = {"interrupted": (signal.SIGINT, 3), "killed": (signal.SIGKILL, 5)}
    scenarios = []
    for name, each in words.items():
        end = dict(zip(("signal", "at"), ends[name], strict=True)) if name in ends else {}
        scenarios.append({"words": each, "name": str(folder / name), **end})
    scenarios.append({"words": words["refused"], "name": str(folder / "both refused"), "ranks": 2})
    for name, ranks in (("decoder killed", 1), ("other's decoder killed", 2)):
        # No room to work ahead in: decoders must be at work when they are killed.
        given = [*quiet, "--memory", "80MiB", "--", *command(folder, name, "--train-num-samples", "6400")]
        killed = {"signal": signal.SIGKILL, "at": 3, "decoders_of": ranks - 1}
        scenarios.append({"words": given, "name": str(folder / name), "ranks": ranks, **killed})
    statuses = drive(scenarios)
    names = [Path(scenario["name"]).name for scenario in scenarios]
    return {
        name: (status, (folder / f"{name}.0.said").read_text(), folder)
        for name, status in zip(names, statuses, strict=True)
    }


def test_captions_in_json_train(said):
    status, text, folder = said["json"]
    assert status == "0", text[-3000:]
    assert "preflight: 4 shards, 64 samples, 64 usable" in text
    assert len((folder / "json.0").read_text().split()) == BATCHES
    assert (folder / "logs" / "json" / "checkpoints" / "epoch_1.pt").exists()


def test_a_run_that_openclip_refuses_is_no_success(said):
    status, text, _ = said["again"]
    assert status == "1"
    assert "Experiment already exists" in text


def test_a_run_that_would_starve_is_refused_before_it_starts(said):
    status, text, folder = said["refused"]
    assert status == "1"
    assert "no sample has a txt field" in text
    assert ": wdsflow train --caption json:caption --status-every 0 -- --train-data " in text
    assert "--no-preflight" in text
    assert not (folder / "logs" / "refused").exists()


def test_of_two_ranks_the_first_refuses_for_both(said):
    status, text, folder = said["both refused"]
    assert status == "1 1"
    assert text.count("no sample has a txt field") == 1
    assert (folder / "both refused.1.said").read_text().splitlines()[-1].startswith("wdsflow: the first rank refuses")


def test_a_run_that_starves_all_the_same_ends_with_the_reason_and_no_traceback(said):
    status, text, _ = said["starving"]
    assert status == "1"
    assert "Traceback" not in text
    assert "no-caption" in text


def test_a_decoder_that_is_killed_ends_the_run_with_one_message(said):
    status, text, _ = said["decoder killed"]
    assert status == "1"
    assert "Traceback" not in text
    [line] = [line for line in text.splitlines() if line.startswith("wdsflow: ")]
    assert re.match(r"wdsflow: rank 0: decoder \d \(process \d+\) was ended by SIGKILL, ", line)
    assert "--resume latest" in text.splitlines()[-1]


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


def test_a_run_inside_of_an_epoch_does_not_go_on_with_other_batches(said):
    assert said["killed"][0] == "-9"
    status, text, _ = said["changed"]
    assert status == "1"
    assert "Traceback" not in text
    assert "cannot resume within epoch 0" in text
    assert "batch size: 8 then, 4 now" in text


def test_an_exception_of_openclip_keeps_its_traceback(said):
    status, text, _ = said["no model"]
    assert status == "1"
    assert "Traceback" in text
    assert "Model config for 'nonsense' not found" in text


def test_a_feed_that_cannot_be_says_why_without_a_traceback(said):
    status, text, _ = said["many workers"]
    assert status == "1"
    assert "Traceback" not in text
    assert "there are 4 shards for 1 ranks x 9 workers" in text
