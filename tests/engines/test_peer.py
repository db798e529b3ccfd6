"""Processes of ours: what they start ends with them, and values reach them whole."""

import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from tests.processes import await_end
from wdsflow.engines.exit_status import signal_name
from wdsflow.engines.messages import receive, send
from wdsflow.engines.peer import Peer

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
linux = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="only Linux hands orphans to a keeper"
)


def scattered(ready: int) -> list[int]:
    with os.fdopen(ready, "rb") as said:
        return [int(number) for number in said.readline().split()]


@linux
@pytest.mark.parametrize("end", ENDS)
def test_all_that_a_process_started_ends_with_it_whatever_its_session_or_parent(end: str) -> None:
    ready, tell = os.pipe()
    peer = Peer(f"import os; os.dup2({tell}, 1)" + SCATTER + end, inherit=(tell,))
    os.close(tell)
    family = scattered(ready)
    if ENDS[end] is None:
        peer.end()
    status = peer.wait()
    assert len(family) == 2
    assert status == (-signal.SIGKILL if ENDS[end] is None else ENDS[end])
    assert peer.has_ended()
    assert not [number for number in family if psutil.pid_exists(number)]
    assert peer.close() == status


@linux
def test_a_family_ends_when_the_process_that_asked_is_killed() -> None:
    code = f"from wdsflow.engines.peer import Peer;peer = Peer({SCATTER + 'sys.stdin.read()'!r}); peer.wait()"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as asking:
        assert asking.stdout is not None
        family = [int(number) for number in asking.stdout.readline().split()]
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
    ready, tell = os.pipe()
    code = f"import os; {system}; from wdsflow.engines.keeper import become_keeper; become_keeper(); os.close({tell}); input(); os._exit(7)"
    peer = Peer(code, kept=False, inherit=(tell,))
    os.close(tell)
    assert os.read(ready, 1) == b""  # the keeper does not hold what the process has closed
    peer.line.sendall(b"\n")  # and stays open: its end would end the family
    assert peer.wait() == 7
    peer.close()
    os.close(ready)


def test_a_process_is_waited_for_no_longer_than_asked() -> None:
    peer = Peer("input()", kept=False)
    assert not peer.ends_within(0.05)
    peer.line.sendall(b"\n")
    assert peer.ends_within(60)
    assert peer.close() == 0


def test_a_signal_has_its_name_if_it_has_one() -> None:
    assert [signal_name(-number) for number in (signal.SIGTERM, 40, 200)] == [
        "SIGTERM",
        "signal 40",
        "signal 200",
    ]


def test_values_and_arrays_come_as_they_went() -> None:
    def write() -> None:
        for value in sent:
            send(one, value)

    one, other = socket.socketpair()
    large = np.arange(300_000, dtype=np.int32).reshape(300, 1000)
    sent: list[Any] = [
        None,
        {"a": [1, "b"]},
        (large, large[:, ::2], np.zeros((0, 3))),
        b"",
        [np.float32(2), large[:1]],
    ]
    with one, other:
        writing = threading.Thread(target=write)
        writing.start()
        found = [receive(other) for _ in sent]
        writing.join()
    assert found[:2] == sent[:2]
    assert found[3] == b""
    for made, given in ((found[2], sent[2]), (found[4], sent[4])):
        assert type(made) is type(given)
        assert all(
            np.array_equal(a, b) and a.dtype == b.dtype for a, b in zip(made, given, strict=True)
        )
    found[2][0][0, 0] = 7  # it is the receiver's own


def test_an_array_is_a_part_of_its_own_behind_the_numbers_of_bytes() -> None:
    one, other = socket.socketpair()
    with one, other:
        send(one, np.arange(4, dtype=np.uint8))
        count, first, second = struct.unpack("<3Q", other.recv(24))
        assert (count, second) == (2, 4)
        data = other.recv(first)
        assert len(data) == first
        assert pickle.loads(data, buffers=[bytearray(other.recv(9))]).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("kept", [0, 5, 8, 20])
def test_an_end_that_comes_early_is_an_error(kept: int) -> None:
    one, other = socket.socketpair()
    third, fourth = socket.socketpair()
    with one, other, third, fourth:
        send(one, b"x" * 100)
        third.sendall(other.recv(1000)[:kept])
        third.close()
        with pytest.raises(EOFError, match="the other end is gone"):
            receive(fourth)


def driver_of_cluster(errors: Path) -> Peer:
    """Start a driver that writes its errors into a file."""
    with errors.open("wb") as file:
        return Peer("from wdsflow.engines.cluster import serve; serve()", kept=False, stderr=file)


def test_a_driver_of_a_cluster_waits_for_the_end_of_its_program_and_leaves_without_an_error(
    tmp_path: Path,
) -> None:
    driver = driver_of_cluster(tmp_path / "errors")
    raised, error = driver.ask(("unknown", ()))
    assert (raised, type(error)) == (True, AttributeError)

    driver.line.shutdown(socket.SHUT_WR)
    ends_early = driver.ends_within(0.2)
    driver.line.close()

    assert not ends_early
    assert driver.ends_within(60)
    assert driver.close() == 0
    assert (tmp_path / "errors").read_text() == ""


def test_a_driver_of_a_cluster_that_begins_after_the_end_of_its_program_leaves_without_an_error(
    tmp_path: Path,
) -> None:
    driver = driver_of_cluster(tmp_path / "errors")

    driver.line.close()

    assert driver.ends_within(60)
    assert driver.close() == 0
    assert (tmp_path / "errors").read_text() == ""
