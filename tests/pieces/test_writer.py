"""The writer of pieces: valid and reproducible archives, whole or not at all."""

import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.depth import cases
from tests.shards.archives import read_tar
from wdsflow.pieces.tar_members import header, member, moved_member
from wdsflow.pieces.writer import write_pieces
from wdsflow.shards.atomic import remove_stale_files
from wdsflow.shards.source.base import Piece, Source, SourceChangedError, single_shard
from wdsflow.shards.source.opening import open_source

LONG = "d" * 90 + "/" + "n" * 90 + ".jpg"
LONGER = "e" * 300 + ".jpg"


def test_what_is_written_is_read_by_tarfile_and_gnu_tar(tmp_path: Path):
    given = [("a.jpg", b"x" * 600), (LONG, b""), (LONGER, b"y"), ("é/ü.txt", b"z" * 512)]
    path = tmp_path / "0.tar"
    size = write_pieces(path, Source(), (member(name, data) for name, data in given))
    assert read_tar(path) == given
    listed = subprocess.run(
        ["tar", "--quoting-style=literal", "-tf", path],
        capture_output=True,
        check=True,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
    )
    assert listed.stdout.decode().split() == [name for name, _ in given]
    assert listed.stderr == b""
    assert path.read_bytes().endswith(bytes(1024))
    assert size == path.stat().st_size


def test_headers_are_ustar_and_the_same_every_time(tmp_path: Path):
    for number in range(2):
        write_pieces(tmp_path / f"{number}.tar", Source(), [member("a.jpg", b"x")])
    assert (tmp_path / "0.tar").read_bytes() == (tmp_path / "1.tar").read_bytes()
    with tarfile.open(tmp_path / "0.tar") as tar:
        info = tar.next()
    assert info is not None
    assert (info.mtime, info.mode, info.uid, info.uname, info.pax_headers) == (
        0,
        0o444,
        0,
        "bigdata",
        {},
    )
    assert len(header(LONG, 5)) == 512
    assert len(header(LONGER, 5)) > 512


@cases(12)
@given(
    st.text(
        st.characters(blacklist_characters="\0/", blacklist_categories=["Cs"]),
        min_size=1,
        max_size=150,
    ),
    st.sampled_from([0, 1, 511, 512, 8**11 - 1, 8**11, 1 << 50]),
)
def test_any_name_and_size_come_back(name: str, size: int):
    block = header(name, size)
    info = tarfile.TarInfo.frombuf(block[-512:], "utf-8", "surrogateescape")
    if len(block) == 512:
        assert (info.name, info.size) == (name, size)
        assert info.isreg()
    else:
        assert len(name.encode()) > 100 or size >= 8**11


@pytest.mark.parametrize("size", [0, 1, 512, 300_000, 3_000_000])
@pytest.mark.parametrize("local", [True, False])
def test_ranges_are_copied_byte_for_byte(tmp_path: Path, size: int, local: bool):
    data = os.urandom(size + 100)
    (tmp_path / "source").write_bytes(data)
    with open_source(single_shard(str(tmp_path / "source"))) as source:
        pieces = [*moved_member("a.bin", 50, size), *moved_member("b.bin", 0, 40)]
        write_pieces(tmp_path / "0.tar", source if local else Far(data), pieces)
    assert read_tar(tmp_path / "0.tar") == [("a.bin", data[50 : 50 + size]), ("b.bin", data[:40])]


class Far(Source):
    """A source that is no local file."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def read_at(self, offset: int, size: int) -> bytes:
        return self.data[offset : offset + size]


@pytest.mark.parametrize("size", [1100, 400_000])
@pytest.mark.parametrize("local", [True, False])
def test_a_source_that_ends_early_leaves_nothing_behind(tmp_path: Path, size: int, local: bool):
    (tmp_path / "source").write_bytes(b"x" * 500)
    with open_source(single_shard(str(tmp_path / "source"))) as source:
        far = Far(b"x" * 500)
        with pytest.raises(
            SourceChangedError, match=rf"read: it ends at byte 500, {size - 500:,} too early$"
        ):
            write_pieces(
                tmp_path / "0.tar", source if local else far, moved_member("a.bin", 0, size)
            )
    assert os.listdir(tmp_path) == ["source"]
    with pytest.raises(SourceChangedError, match=r"read: it ends at byte 500, 3 too early$"):
        far.read_exactly(490, 13)


def test_an_existing_file_stays_until_the_new_one_is_whole(tmp_path: Path):
    path = tmp_path / "0.tar"
    path.write_bytes(b"mine")

    def pieces() -> Iterator[Piece]:
        yield member("a.jpg", b"x")
        assert path.read_bytes() == b"mine"
        assert len(os.listdir(tmp_path)) == 2

    write_pieces(path, Source(), pieces())
    assert read_tar(path) == [("a.jpg", b"x")]
    assert os.listdir(tmp_path) == ["0.tar"]


def test_an_error_of_the_pieces_even_the_last_leaves_what_was_there(tmp_path: Path):
    path = tmp_path / "0.tar"
    path.write_bytes(b"mine")

    def pieces() -> Iterator[Piece]:
        yield member("a.jpg", b"x")
        raise SourceChangedError

    with pytest.raises(SourceChangedError, match=r"^it changed while it was read$"):
        write_pieces(path, Source(), pieces())
    assert (os.listdir(tmp_path), path.read_bytes()) == (["0.tar"], b"mine")


def test_a_full_disk_is_an_error_and_leaves_no_half_file(tmp_path: Path):
    script = f"""
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
from pathlib import Path
from wdsflow.pieces.tar_members import member
from wdsflow.pieces.writer import write_pieces
from wdsflow.shards.source.base import Source
try:
    write_pieces(Path({str(tmp_path / "0.tar")!r}), Source(), [member(f"{{n}}.bin", bytes(100_000)) for n in range(40)])
except OSError as error:
    print(error.strerror)
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env=environment(),
    )
    assert done.stdout.strip() == "File too large"
    assert os.listdir(tmp_path) == []


def test_a_killed_run_leaves_only_a_temporary_file_that_the_next_run_removes(tmp_path: Path):
    script = f"""
import time
from pathlib import Path
from wdsflow.pieces.tar_members import member
from wdsflow.pieces.writer import write_pieces
from wdsflow.shards.source.base import Source
def pieces():
    yield member("a.bin", bytes(3_000_000))
    print("ready", flush=True)
    time.sleep(600)
write_pieces(Path({str(tmp_path / "0.tar")!r}), Source(), pieces())
"""
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, env=environment()
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        [left] = os.listdir(tmp_path)
        assert left.endswith(".tmp")
        assert remove_stale_files(tmp_path) == 0  # its run is alive
        process.send_signal(signal.SIGKILL)
        process.wait()
    (tmp_path / "mine.download.tmp").touch()
    while not remove_stale_files(tmp_path):  # the lock goes a moment after the process
        time.sleep(0.05)
    assert os.listdir(tmp_path) == ["mine.download.tmp"]


def environment() -> dict[str, str]:
    root = str(Path(__file__).resolve().parents[2])
    return {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
