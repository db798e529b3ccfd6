"""How commands end that are stopped, or whose output nobody reads."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.cli import shards

WDSFLOW = [sys.executable, "-m", "wdsflow"]


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["filter", "--help"],
        ["explain"],
        ["scores"],
        ["validate", "{}", "--format", "json"],
        ["inspect", "{}"],
    ],
    ids=" ".join,
)
def test_output_into_a_closed_pipe_ends_quietly(tmp_path, words):
    pattern = shards.with_txt(tmp_path)
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [*WDSFLOW, *(word.format(pattern) for word in words)],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writing)
    assert done.stderr == ""
    assert done.returncode == 141


@pytest.mark.sample(1)
@pytest.mark.parametrize("words", [["--help"], ["explain"], ["doctor", "--json"]], ids=" ".join)
def test_output_onto_a_full_disk_is_wrong_use_in_one_line(words):
    with open("/dev/full", "w") as full:
        done = subprocess.run([*WDSFLOW, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.stderr == "wdsflow: the output cannot be written: No space left on device\n"
    assert done.returncode == 2


@pytest.mark.sample(2)
@pytest.mark.parametrize("command", ["validate", "inspect", "repair", "filter"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_command_that_is_stopped_reports_it(tmp_path, command, number):
    """The shard begins, and ends only after the signal was sent: the command is at work when it comes."""
    begun, stopped = tmp_path / "begun", tmp_path / "stopped"
    words = {"repair": ["-o", "out"], "filter": ["-o", "out", "--where", "min_side > 1", "--workers", "0"]}
    url = f"pipe:touch {begun}; while [ ! -e {stopped} ]; do sleep 0.05; done"
    process = subprocess.Popen(
        [*WDSFLOW, command, url, "--allow-pipe", *words.get(command, [])],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        while not begun.exists() and process.poll() is None:
            time.sleep(0.02)
        os.kill(process.pid, number)
    finally:
        stopped.touch()
        out, errors = process.communicate()
    assert process.returncode == 128 + number, errors
    assert errors.startswith("wdsflow: interrupted")
    assert len(errors.splitlines()) == 1
    assert out == ""
