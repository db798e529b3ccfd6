import mmap
import os
import subprocess
import sys
from tempfile import NamedTemporaryFile

import pytest

from wdsflow.memory.usage import (
    CachedPss,
    descendants,
    mapped_file_bytes,
    peak_resident_bytes,
    private_data_bytes,
    pss_bytes,
    reset_peak,
    resident_bytes,
)

pytestmark = pytest.mark.usefixtures("new_interpreters")


@pytest.mark.skipif(sys.platform != "linux", reason="others do not hold to these limits")
def test_memory_that_grows_is_measured_again_at_once_and_other_memory_is_not() -> None:
    known = CachedPss()
    before = known(os.getpid())
    assert before == known(os.getpid())
    assert abs(before - pss_bytes(os.getpid())) < 32 << 20

    # Not from the heap, which may still hold as much from tests before.
    with mmap.mmap(-1, 128 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as block:
        for at in range(0, len(block), 4096):
            block[at] = 1
        # Not compared with the value before: other forks take or give up a share of this memory.
        assert abs(known(os.getpid()) - pss_bytes(os.getpid())) < 32 << 20


@pytest.mark.skipif(sys.platform != "linux", reason="others do not tell")
def test_pages_that_processes_share_are_divided_among_them() -> None:
    read = "import mmap, sys; found = mmap.mmap(int(sys.argv[1]), 0, access=mmap.ACCESS_READ); sum(found[::4096]); "
    with NamedTemporaryFile(dir="/var/tmp") as file:
        file.write(bytes(64 << 20))
        file.flush()
        command = [
            sys.executable,
            "-c",
            f"{read} print(flush=True); sys.stdin.read()",
            str(file.fileno()),
        ]
        with (
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as found,
            subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[file.fileno()]
            ) as child,
        ):
            assert sum(found[::4096]) == 0
            assert child.stdout is not None
            child.stdout.readline()
            assert resident_bytes(child.pid) - pss_bytes(child.pid) > 24 << 20
            child.communicate(b"")


def test_a_process_that_is_gone_takes_nothing_and_has_no_descendants() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert (resident_bytes(gone.pid), pss_bytes(gone.pid), descendants(gone.pid)) == (0, 0, [])


def test_descendants_are_children_and_those_that_they_started() -> None:
    code = "import subprocess, sys; p = subprocess.Popen(['sleep', '100']); print(p.pid, flush=True); sys.stdin.read(); p.kill(); p.wait()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        grandchild = int(child.stdout.readline())
        found = descendants(os.getpid())
        assert {child.pid, grandchild} <= set(found)
        assert descendants(child.pid) == [grandchild]
        assert 0 < pss_bytes(child.pid) <= resident_bytes(child.pid)
        child.communicate("")


@pytest.mark.skipif(sys.platform != "linux", reason="others do not tell")
def test_the_peak_is_forgotten_and_what_is_mapped_is_counted() -> None:
    block = bytearray(os.urandom(48 << 20))
    before = private_data_bytes()
    del block
    assert before > 48 << 20
    assert peak_resident_bytes() > 48 << 20
    high = peak_resident_bytes()
    assert reset_peak()
    low = peak_resident_bytes()
    assert low <= high + (1 << 20)  # other threads of the tests take memory in between
    assert abs(low - resident_bytes(os.getpid())) < 16 << 20
    mapped = mapped_file_bytes()
    with NamedTemporaryFile(dir="/var/tmp") as file:
        file.write(os.urandom(32 << 20))
        file.flush()
        with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data:
            assert sum(data[at] for at in range(0, len(data), 4096)) >= 0
            assert abs(mapped_file_bytes() - mapped - (32 << 20)) < 4 << 20
