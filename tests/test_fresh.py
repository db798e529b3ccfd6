"""``scripts/fresh`` runs a command as on a fresh machine.

It reports the files and processes that the command leaves behind.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FRESH = [sys.executable, str(ROOT / "scripts" / "fresh")]


def fresh(*command: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, **variables}
    return subprocess.run(
        [*FRESH, *command], env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def allowed() -> None:
    done = fresh("true")
    if done.returncode or "running plainly" in done.stderr:
        pytest.skip(f"not here: {done.stderr}")


@pytest.mark.deep
def test_the_command_finds_an_empty_machine_and_a_clone(allowed: None) -> None:
    look = "ls -A /tmp /dev/shm; ls -A $HOME; git status --porcelain; ls -d wdsflow/validate/rules; pwd; exit 3"
    done = fresh("bash", "-c", look)
    *found, linked, here = done.stdout.splitlines()
    assert found[:3] == ["/dev/shm:", "", "/tmp:"]
    # Settings that lead to packages.
    assert set(found[3:]) <= {
        ".config",
        ".pip",
        ".gitconfig",
        ".netrc",
    }
    assert linked == "wdsflow/validate/rules"
    assert not os.path.exists(here)
    assert done.returncode == 3
    assert "still running" not in done.stderr
    assert "left in" not in done.stderr


@pytest.mark.deep
def test_what_the_command_leaves_is_reported(allowed: None) -> None:
    done = fresh("bash", "-c", "touch /tmp/a /dev/shm/b; sleep 1000 & disown")
    assert done.returncode == 0
    assert "sleep 1000" in done.stderr
    assert "left in /dev/shm: b" in done.stderr
    assert "left in /tmp: a" in done.stderr


def test_where_that_is_not_allowed_the_command_runs_plainly() -> None:
    done = fresh(
        sys.executable,
        "-c",
        "import os; print(os.getcwd())",
        PATH=os.defpath if os.geteuid() else "/nowhere",
    )
    assert done.stdout == f"{ROOT}\n"
    assert "running plainly, in this checkout" in done.stderr
