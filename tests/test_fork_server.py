"""The server that forks programs: a fork behaves as a new interpreter would.

The only difference is that some modules are already loaded.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.fork_server import forked_python
from tests.processes import MARK, living_children

pytestmark = pytest.mark.usefixtures("new_interpreters")

SHOW = """
import json, logging, os, signal, sys, threading, warnings
names = [name for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}")]
shown = {
    "arguments": sys.argv,
    "path": sys.path,
    "folder": os.getcwd(),
    "environment": dict(os.environ),
    "parent": os.getppid(),
    "leads": os.getsid(0) == os.getpid(),
    "command": open("/proc/self/cmdline").read().rstrip("\\0").split("\\0"),
    "open": sorted(names),
    "name": __name__,
    "errors": [filter[0] for filter in warnings.filters if filter[0] == "error"],
    "handlers": str(logging.root.handlers),
    "interrupt": str(signal.getsignal(signal.SIGINT)),
    "threads": threading.active_count(),
    "hooks": [hook.__module__ for hook in (sys.excepthook, sys.unraisablehook, threading.excepthook)],
    "input": sys.stdin.read(),
    "loaded": "torch" in sys.modules,
}
print(json.dumps(shown))
print("an error", file=sys.stderr)
sys.exit(3)
"""


def shown(arguments: list[str], forked: bool, **options: Any) -> dict[str, Any]:
    """Return what a program says of itself."""
    command = [sys.executable, *arguments]
    if forked:
        with forked_python():
            done = subprocess.run(
                command, input="a\nb", capture_output=True, text=True, check=False, **options
            )
    else:
        done = subprocess.run(
            command, input="a\nb", capture_output=True, text=True, check=False, **options
        )
    assert (done.returncode, done.stderr) == (3, "an error\n")
    answer: dict[str, Any] = json.loads(done.stdout)
    assert answer.pop("loaded") is forked
    return answer


@pytest.mark.parametrize("session", [False, True])
@pytest.mark.parametrize("kind", ["file", "module"])
def test_a_fork_is_what_a_new_interpreter_would_be(
    kind: str, session: bool, tmp_path: Path
) -> None:
    script = tmp_path / "show.py"
    script.write_text(SHOW)
    arguments = [str(script), "x", ""] if kind == "file" else ["-m", "show", "x", ""]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "ANOTHER": "ä"}
    reading, writing = os.pipe()
    options = {
        "cwd": tmp_path,
        "env": environment,
        "pass_fds": [writing],
        "start_new_session": session,
    }

    fork, new = (shown(arguments, forked, **options) for forked in (True, False))

    os.close(reading)
    os.close(writing)
    assert fork == new
    assert fork["parent"] == os.getpid()
    assert fork["leads"] is session


def test_code_runs_in_the_folder_and_with_the_variables_of_the_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "import json, os, sys; print(json.dumps([sys.argv, sys.path[0], os.getcwd(), os.environ['X'], __name__]))"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("X", "1")
    with forked_python():
        printed = subprocess.check_output([sys.executable, "-c", code, "a"])
    assert json.loads(printed) == [["-c", "a"], "", str(tmp_path), "1", "__main__"]


@pytest.mark.parametrize(
    ("code", "status", "error"),
    [
        ("import torch; raise SystemExit('it fails')", 1, "it fails"),
        ("import torch; raise ValueError('it fails')", 1, "ValueError: it fails"),
        ("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL, ""),
        (
            "import os, signal; os.kill(os.getpid(), signal.SIGINT)",
            -signal.SIGINT,
            "KeyboardInterrupt",
        ),
        ("import atexit, os; atexit.register(os._exit, 7)", 7, ""),
    ],
)
def test_its_end_is_that_of_a_process(code: str, status: int, error: str) -> None:
    with forked_python():
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False
        )
    assert done.returncode == status
    assert (done.stderr.splitlines() or [""])[-1] == error


def test_an_orphan_that_it_leaves_is_known_by_its_variables() -> None:
    code = "import os, time; os.fork() and os._exit(0); print(os.getpid(), flush=True); time.sleep(1000)"
    before = living_children()
    with (
        forked_python(),
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process,
    ):
        assert process.stdout is not None
        orphan = psutil.Process(int(process.stdout.readline()))
        process.wait()
        assert orphan.environ()[MARK] == os.environ[MARK]
        orphan.kill()
    assert living_children(before) == []


@pytest.mark.parametrize("change", ["variable", "option", "preparation", "module"])
def test_what_a_fork_cannot_have_is_a_new_interpreter(change: str, tmp_path: Path) -> None:
    code = "import sys; print('torch' in sys.modules)"
    command, environment = [sys.executable, "-c", code], dict(os.environ)
    if change == "variable":
        environment["PYTHONHASHSEED"] = "1"
    elif change == "option":
        command.insert(1, "-B")
    elif change == "module":
        (tmp_path / "torch").mkdir()
        environment["PYTHONPATH"] = str(tmp_path)
    prepare = (lambda: None) if change == "preparation" else None
    with forked_python():
        assert subprocess.check_output(command, env=environment, preexec_fn=prepare) == b"False\n"
