"""Folders without permission to read, for every command.

Each shows a message and a command to fix it, and no traceback. Nothing is lost silently.
"""

import ctypes
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packing.tables import jpeg
from tests.printed.pasted import run
from tests.shards.archives import JPEG, write_tar

# Linux: the capabilities by which root reads every file; prctl's PR_CAPBSET_DROP.
READ, DROP = (
    (1, 2),
    24,
)
TYPED = {
    "validate locked": "the folder locked cannot be read: Permission denied",
    "validate locked/0.tar": "locked/0.tar: no permission to read it",
    "validate locked/*.tar": "the folder locked cannot be read: Permission denied",
    "inspect locked/{0..3}.tar": "the folder locked cannot be read: Permission denied",
    "filter locked -o out --where width>3": "the folder locked cannot be read: Permission denied",
    "reshard locked -o out": "the folder locked cannot be read: Permission denied",
    "index locked": "the folder locked cannot be read: Permission denied",
    "pack locked -o out": "locked cannot be read: Permission denied",
    "pack locked/t.csv -o out": "locked/t.csv cannot be read: Permission denied",
    "pack open -o locked/out": "cannot write locked/out: Permission denied\n  elsewhere: wdsflow pack open -o out",
    "graft in -o out --from locked --on key --set txt=c": "to see who may: ls -ld locked",
    "status locked": "to see who may: ls -ld locked",
    "scores --ledger locked": "to see who may: ls -ld locked",
    "train --dry-run -- --train-data locked": "the folder locked cannot be read: Permission denied",
}


def without_privileges() -> None:
    """In the child: let root read only what its owner and group may."""
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None)
        for capability in READ:
            assert libc.prctl(DROP, capability, 0, 0, 0) == 0


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """Folders with shards and images; nobody may look into one of them."""
    for name in ("in", "open", "locked"):
        (tmp_path / name).mkdir()
    write_tar(tmp_path / "in/0.tar", [("a.jpg", JPEG), ("a.txt", b"a")])
    write_tar(tmp_path / "locked/0.tar", [("a.jpg", JPEG), ("a.txt", b"a")])
    (tmp_path / "open/a.jpg").write_bytes(jpeg())
    (tmp_path / "locked").chmod(0)
    yield tmp_path
    for path in tmp_path.rglob("*"):
        path.chmod(0o755)


def typed(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "wdsflow", *shlex.split(command)]
    return subprocess.run(
        words,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=without_privileges,
    )


@pytest.mark.sample(1)
@pytest.mark.parametrize("command", TYPED)
def test_a_folder_without_permission_is_named_with_its_reason(place: Path, command):
    done = typed(command, place)
    assert (done.returncode, done.stdout) == (2, "")
    assert TYPED[command] in done.stderr
    assert "Traceback" not in done.stderr
    assert not (place / "out").exists()
    for line in done.stderr.splitlines():
        if "to see who may: " in line:
            look = subprocess.run(
                line.partition(": ")[2], shell=True, cwd=place, check=True, capture_output=True
            )
            assert look.stdout.startswith(b"d---------")


@pytest.mark.deep
def test_a_folder_in_a_packed_one_that_cannot_be_read_is_reported(place: Path):
    (place / "open/more").mkdir()
    (place / "open/more").chmod(0)
    done = typed("pack open -o out", place)
    assert done.returncode == 0
    assert "1 file ignored: folder that cannot be read" in done.stdout
    (place / "open/more").chmod(0o755)
    assert run(["pack", "open", "-o", "out"], place).status == 0
