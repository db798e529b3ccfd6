"""The limits of the gate: what hangs is printed with the stacks of all its processes, and ended."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from support.checks import give_up

from tests.fork_server import new_python

ROOT = Path(__file__).resolve().parent.parent
HANGS = """
import os, signal, subprocess, sys

def waits_in_the_child():
    os.write(1, b"ready\\n")
    signal.pause()

def waits_in_the_parent(code):
    subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    signal.pause()
"""


def test_a_command_that_hangs_is_printed_with_all_its_processes_and_killed(
    capfd: pytest.CaptureFixture[str],
) -> None:
    child = HANGS + "waits_in_the_child()"
    code = f"{HANGS}waits_in_the_parent({child!r})"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"ready\n"
    family = psutil.Process(process.pid).children(recursive=True)
    give_up(process)
    process.stdout.close()
    printed = capfd.readouterr().out
    assert "waits_in_the_parent" in printed
    assert "waits_in_the_child" in printed
    assert len(family) == 1
    assert not any(each.is_running() for each in family)


def inner(begin: str, folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    """Run the tests in a folder as those of this project are run."""
    words = [
        "-p",
        "tests.conftest",
        "-p",
        "no:cacheprovider",
        "-c",
        str(ROOT / "pyproject.toml"),
        str(folder),
        *options,
    ]
    path = os.pathsep.join([str(ROOT), str(ROOT / "scripts"), os.environ.get("PYTHONPATH", "")])
    run = [sys.executable, "-c", f"{begin}; raise SystemExit(pytest.main({words!r}))"]
    environment = {**os.environ, "PYTHONPATH": path}
    # In a fork of this session pytest would warn of plugins that are imported already.
    with new_python():
        return subprocess.run(run, env=environment, capture_output=True, text=True, check=False)


HANGING_TEST = """
import os, signal, time

def waits_in_the_child():
    os.write(WRITER, b"x")
    signal.pause()

READER, WRITER = os.pipe()

def test_that_hangs():
    child = os.fork()
    if not child:
        waits_in_the_child()
    os.read(READER, 1)
    try:
        signal.raise_signal(signal.SIGALRM)  # as the timer does
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
"""


@pytest.mark.deep
def test_a_test_that_hangs_fails_with_the_stacks_of_all_its_processes(tmp_path: Path) -> None:
    (tmp_path / "test_hanging.py").write_text(HANGING_TEST)
    done = inner("import pytest", tmp_path, "--timeout", "1000")
    assert "Timeout (>1000" in done.stdout
    assert "waits_in_the_child" in done.stdout.partition("Captured stderr")[2]
    assert done.returncode == 1


@pytest.mark.sample(1)
@pytest.mark.parametrize("command", ["exit 3", "sleep 1000 & exit 3"])
def test_processes_that_tests_leave_behind_fail_the_run(tmp_path: Path, command: str) -> None:
    (tmp_path / "test_leaving.py").write_text(
        f"import os\ndef test_leaves(): assert os.system({command!r})\n"
    )
    done = inner("from tests import processes; processes.PATIENCE = 0.1; import pytest", tmp_path)
    assert done.returncode == ("sleep" in command), done.stdout
    assert ("tests have left processes behind" in done.stdout) == ("sleep" in command)


@pytest.mark.usefixtures("new_interpreters")
def test_of_tests_in_several_processes_each_runs_once_and_one_that_fails_or_dies_fails_the_run(
    tmp_path: Path,
) -> None:
    ran = tmp_path / "ran.txt"
    bodies = {
        **{f"pass_{number}": f"open({str(ran)!r}, 'a').write('{number}')" for number in range(5)},
        "fail": "assert 0",
        "die": "__import__('os').abort()",
    }
    for name, body in bodies.items():
        (tmp_path / f"test_{name}.py").write_text(f"def test_{name}(): {body}\n")
    passing = ",".join(str(tmp_path / f"test_pass_{number}.py") for number in range(5))
    failing, dying = (str(tmp_path / f"test_{name}.py") for name in ("fail", "die"))
    words = ["2", passing, failing, dying, "--", "-q", "-p", "no:cacheprovider"]
    code = f"import support.forked_pytest as each; each.LARGE = (); raise SystemExit(each.main({words!r}))"
    path = os.pathsep.join([str(ROOT / "scripts"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert sorted(ran.read_text()) == ["0", "1", "2", "3", "4"]
    assert "1 failed" in done.stdout
    lines = done.stdout.splitlines()
    assert sorted(lines[-2:]) == sorted(
        [f"{failing}: pytest ended with status 1", f"{dying}: pytest ended with status 1"]
    )
    (died,) = [line for line in lines if line.endswith(": pytest ended with status -6")]
    assert died.startswith("process ")
