"""One run at a time in a folder; where the file system has no locks, every run."""

import errno
import fcntl

import pytest

from tests.printed.pasted import run
from tests.shards.archives import JPEG, write_tar
from wdsflow.records.folder_lock import Busy, Lock


@pytest.mark.parametrize(
    ("first", "second", "busy"), [(1, 1, False), (1, 0, True), (0, 1, True), (0, 0, True)]
)
def test_only_shared_locks_are_held_at_once(first, second, busy, tmp_path):
    path = tmp_path / "out" / ".wdsflow" / "lock"
    path.parent.mkdir(parents=True)
    with Lock(path, shared=bool(first)):
        if busy:
            with pytest.raises(
                Busy, match=f"^another run works in {tmp_path}/out; wait for it or stop it$"
            ):
                Lock(path, 0.0, shared=bool(second))
        else:
            Lock(path, 0.0, shared=bool(second)).close()
    with Lock(path, 0.0):
        pass


def test_a_file_that_its_holder_removes_is_made_again(tmp_path):
    path = tmp_path / "lock"
    with Lock(path) as held:
        held.remove()
        with Lock(path, 0.0) as other:
            assert other.fd != held.fd
    assert path.exists()


def test_a_file_system_without_locks_keeps_no_run_away(tmp_path, monkeypatch):
    write_tar(tmp_path / "0.tar", [("a.jpg", JPEG), ("a.txt", b"a")])

    def flock(fd, how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    done = run(["reshard", "0.tar", "-o", "out", "--samples", "1"], tmp_path)
    assert (done.status, done.errors) == (0, "")
    assert (tmp_path / "out" / "00000.tar").exists()
