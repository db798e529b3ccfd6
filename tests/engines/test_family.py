"""Processes that end together, whatever they do to get away."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from tests.processes import await_end
from wdsflow.engines.child_process import start_python
from wdsflow.engines.family import end_family, start_family

# A child in a session of its own, and a grandchild whose parent has ended.
SCATTER = """
import os, sys, time
ready, tell = os.pipe()
for leaves in (False, True):
    if os.fork() == 0:
        os.setsid()
        if leaves and os.fork():
            os._exit(0)
        os.write(tell, b"%d " % os.getpid())
        time.sleep(600)
        os._exit(0)
said = b""
while said.count(b" ") < 2:
    said += os.read(ready, 100)
os.write(1, said + b"\\n")
"""
ENDS = {
    "sys.stdin.read()": None,  # until it is ended
    "sys.exit(7)": 7,
    "os._exit(0)": 0,
    "os.kill(os.getpid(), 9)": -signal.SIGKILL,
    "import signal; signal.signal(signal.SIGSEGV, signal.SIG_DFL); os.kill(os.getpid(), 11)": -signal.SIGSEGV,
}
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux hands orphans to a keeper")


def scattered(process: "subprocess.Popen[bytes]") -> list[int]:
    assert process.stdout is not None
    return [int(number) for number in process.stdout.readline().split()]


@linux
@pytest.mark.parametrize("end", ENDS)
def test_all_that_a_process_started_ends_with_it_whatever_its_session_or_parent(end: str) -> None:
    process = start_family(SCATTER + end, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with process:
        family = scattered(process)
        if ENDS[end] is None:
            end_family(process)
        status = process.wait()
    assert len(family) == 2
    assert status == (-signal.SIGKILL if ENDS[end] is None else ENDS[end])
    assert not [number for number in family if psutil.pid_exists(number)]


@linux
def test_a_family_ends_when_the_process_that_asked_is_killed() -> None:
    code = (
        "import subprocess, sys; from wdsflow.engines.family import start_family;"
        f"start_family({SCATTER + 'sys.stdin.read()'!r}, stdin=subprocess.PIPE, stdout=sys.stdout).wait()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as asking:
        family = scattered(asking)
        asking.kill()
    await_end(*family)


@pytest.mark.parametrize(
    "system",
    [
        pytest.param("os.sysconf = lambda name: (1 << 63) - 1", id="open files have no limit"),
        pytest.param(
            "listed = os.listdir; os.listdir = lambda of: listed('/none' if of == '/dev/fd' else of)",
            id="no folder of descriptors",
        ),
    ],
)
def test_a_keeper_holds_no_file_whatever_the_system_tells_of_them(system: str) -> None:
    code = f"import os; {system}; from wdsflow.engines.family import lead; lead(); os.closerange(3, 99); input(); os._exit(7)"
    ready, tell = os.pipe()
    with start_python(code, inherit=(tell,), stdin=subprocess.PIPE) as process:
        os.close(tell)
        assert os.read(ready, 1) == b""  # the keeper does not hold what the process has closed
        assert process.stdin is not None
        process.stdin.write(b"\n")  # and stays open: its end would end the family
        process.stdin.flush()
        assert process.wait(60) == 7
    os.close(ready)


def test_a_command_gets_its_words_and_reads_nothing() -> None:
    show = 'read line; echo "$? $1"; kill -PIPE $$'
    with tempfile.TemporaryFile() as out:
        process = start_family(
            "from wdsflow.engines.family import run_command; run_command()",
            "sh", "-c", show, "sh", "a 'word'", stdin=subprocess.PIPE, stdout=out,
        )  # fmt: skip
        with process:
            assert process.wait() == -signal.SIGPIPE
        assert os.pread(out.fileno(), 100, 0) == b"1 a 'word'\n"


def test_a_program_that_may_not_be_run_ends_as_in_a_shell(tmp_path: Path) -> None:
    (tmp_path / "program").touch()
    for program, status in ((tmp_path / "program", 126), (tmp_path / "none", 127)):
        code = "from wdsflow.engines.family import run_command; run_command()"
        with start_family(code, str(program), stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stderr is not None
            assert str(program).encode() in process.stderr.read()
            assert process.wait() == status
