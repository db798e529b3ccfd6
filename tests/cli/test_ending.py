"""How commands end that are stopped, or whose output nobody reads."""

import fcntl
import io
import os
import signal
import subprocess
import sys
import termios
import time

import pytest

from tests.cli import shards
from wdsflow.cli.shared.printing import console

WDSFLOW = [sys.executable, "-m", "wdsflow"]


@pytest.mark.sample(1)
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
        done = subprocess.run(
            [*WDSFLOW, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.stderr == "wdsflow: the output cannot be written: No space left on device\n"
    assert done.returncode == 2


FORKS = """
import os, signal, time
from wdsflow.cli.shared.ending import ending

for command in range(2):
    reading, writing = os.pipe()
    with ending():
        child = os.fork()
        if not child:
            os.write(writing, b"runs")
            time.sleep(60)
    os.read(reading, 4)
    os.kill(child, signal.SIGTERM)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_processes_that_commands_fork_end_by_a_signal_as_usual():
    done = subprocess.run(
        [sys.executable, "-c", FORKS], stdout=subprocess.PIPE, text=True, check=True
    )
    assert done.stdout.split() == ["-15", "-15"]


def heed_hangup():
    """Undo what nohup may have done, to the tests, too."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


AT_WORK = {
    "repair": ["-o", "out"],
    "reshard": ["-o", "out", "--shuffle", "1"],
    "filter": ["-o", "out", "--where", "min_side > 1", "--jobs", "0"],
}


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("handler", "status", "errors"),
    [(signal.SIG_DFL, 130, "wdsflow: interrupted\n"), (signal.SIG_IGN, 7, "")],
    ids=["as usual", "ignored, as in the background"],
)
@pytest.mark.parametrize("words", [["validate", "0.tar"], ["--help"], ["train"]], ids=str)
def test_an_interrupt_while_a_command_is_loaded_ends_it_with_one_line(
    tmp_path, words, handler, status, errors
):
    (tmp_path / "click.py").write_text(
        "import os, signal, sys; os.kill(os.getpid(), signal.SIGINT); sys.exit(7)"
    )
    done = subprocess.run(
        [sys.executable, "-m", "wdsflow", *words],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, handler),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr, done.stdout) == (status, errors, "")


@pytest.mark.sample(1)
@pytest.mark.parametrize("command", ["validate", "inspect", *AT_WORK])
@pytest.mark.parametrize(
    "number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=["SIGTERM", "SIGINT", "SIGHUP"]
)
def test_a_command_that_is_stopped_reports_it_and_leaves_nothing(tmp_path, command, number):
    """A command that gets a signal while it reads a shard.

    The shard ends only after the signal was sent, so the command is still running.
    """
    begun, stopped = tmp_path / "begun", tmp_path / "stopped"
    url = f"pipe:touch {begun}; while [ ! -e {stopped} ]; do sleep 0.05; done"
    process = subprocess.Popen(
        [*WDSFLOW, command, url, "--allow-pipe", *AT_WORK.get(command, [])],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=heed_hangup,  # noqa: PLW1509 - no thread runs here
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
    assert not (tmp_path / "out").exists()


REPAIR = """
import signal, sys, time
from pathlib import Path
from wdsflow.cli.main import main

def note(*_):
    Path("begun").touch()
    while not Path("stopped").exists():
        time.sleep(0.01)

if sys.argv[1] == "ignore":
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
import wdsflow.repair.run_repair as run
plain = run.repair_shard
run.repair_shard = lambda *args: (note(), plain(*args))[1]
main(["repair", "in", "-o", "out"])
"""


@pytest.mark.deep
@pytest.mark.parametrize("how", ["default", "ignore"])
def test_a_terminal_that_is_lost_ends_a_command_unless_nohup_holds_it(tmp_path, how):
    """The system sends SIGHUP when the terminal is gone; nothing can be printed any more."""
    (tmp_path / "in").mkdir()
    shards.with_txt(tmp_path / "in")
    ours, theirs = os.openpty()

    def at_terminal() -> None:
        heed_hangup()
        os.setsid()
        fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)

    line = [sys.executable, "-c", REPAIR, how]
    process = subprocess.Popen(
        line,
        cwd=tmp_path,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        preexec_fn=at_terminal,  # noqa: PLW1509
    )
    os.close(theirs)
    try:
        while not (tmp_path / "begun").exists() and process.poll() is None:
            time.sleep(0.02)
        os.close(ours)
    finally:
        (tmp_path / "stopped").touch()
        process.wait()
    if how == "default":
        assert process.returncode == 128 + signal.SIGHUP
        assert not (tmp_path / "out/sizes.json").exists()
        assert not [
            path
            for path in (tmp_path / "out").rglob("*")
            if path.suffix == ".tmp" or path.name == "lock"
        ]
    else:
        assert (tmp_path / "out/sizes.json").exists()


TRAINING = """
import hashlib, sys
from pathlib import Path
import wdsflow.training.launch.launch as launching
from wdsflow.cli.main import main
from wdsflow.cli.shared.ending import ending

def step(*_, **__):
    Path("begun").touch()
    hashlib.pbkdf2_hmac("sha512", b"", b"", 100_000_000)  # minutes in compiled code, as a training step on a CPU

launching.launch = step
with ending():
    main(["train", "--no-preflight", "--", "--train-data", "0.tar", "--dataset-type", "webdataset"])
"""


def test_a_signal_ends_a_training_in_the_middle_of_a_step(tmp_path):
    pytest.importorskip("open_clip_train", reason="OpenCLIP is not installed")
    (tmp_path / "0.tar").write_bytes(bytes(1024))
    process = subprocess.Popen([sys.executable, "-c", TRAINING], cwd=tmp_path)
    try:
        while not (tmp_path / "begun").exists() and process.poll() is None:
            time.sleep(0.02)
        process.terminate()
        assert process.wait(30) == -signal.SIGTERM
    finally:
        process.kill()


def test_a_table_for_a_closed_pipe_raises_the_error_that_ends_the_command() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    # Without a buffer, nothing is left to be written when it is closed.
    with io.TextIOWrapper(io.FileIO(writer, "w"), write_through=True) as stream:
        output = console(stream)

        with pytest.raises(BrokenPipeError):
            output.print("a line")
