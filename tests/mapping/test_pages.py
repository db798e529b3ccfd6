"""Pages of mapped files that a process has read and gives back."""

import mmap
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from wdsflow.mapping.tables_on_disk import release_pages
from wdsflow.memory.usage import mapped_file_bytes

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="pages can be let go of on Linux"
)
SIZE = 32 << 20


def mapped(path: Path, access: int) -> mmap.mmap:
    with path.open("r+b") as file:
        return mmap.mmap(file.fileno(), SIZE, access=access)


def touch(*found: mmap.mmap) -> int:
    return sum(each[start] for each in found for start in range(0, SIZE, mmap.PAGESIZE))


@pytest.fixture
def on_disk() -> Iterator[Path]:
    """A folder of a disk: the system counts pages of files in memory as other memory."""
    with TemporaryDirectory(dir="/var/tmp") as name:
        yield Path(name)


def test_pages_of_the_named_files_alone_are_given_back_and_read_again(on_disk: Path) -> None:
    tmp_path = on_disk
    for name in ("one two", "other", "written"):
        (tmp_path / name).write_bytes(b"\1" * SIZE)
    (tmp_path / "link").symlink_to(tmp_path / "one two")
    one, other = (mapped(tmp_path / name, mmap.ACCESS_READ) for name in ("one two", "other"))
    written = mapped(tmp_path / "written", mmap.ACCESS_COPY)
    written[:SIZE] = b"\2" * SIZE
    empty = mapped_file_bytes()
    assert touch(one, other) == 2 * SIZE // mmap.PAGESIZE
    full = mapped_file_bytes()
    assert full - empty >= 2 * SIZE

    release_pages({str(tmp_path / "link"), str(tmp_path / "written")})
    assert full - mapped_file_bytes() == pytest.approx(SIZE, abs=SIZE // 4)
    assert touch(one, other) == 2 * SIZE // mmap.PAGESIZE
    assert touch(written) == 2 * SIZE // mmap.PAGESIZE  # what was written is nowhere else
    for each in (one, other, written):
        each.close()
    release_pages([str(tmp_path / "nowhere")])
