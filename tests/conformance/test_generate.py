import tarfile
from pathlib import Path
from random import Random

import pytest

from tests.conformance.archives import FORMATS, Entry, write
from tests.conformance.generate import make_set
from tests.conformance.hurts import SAMPLE_HURTS
from tests.conformance.layouts import LAYOUT_HURTS
from tests.conformance.pictures import BROKEN, SOUND, huge_png
from tests.conformance.tar_hurts import BYTE_HURTS

PLAIN = [Entry("0.jpg", b"x" * 700), Entry("0.txt", b"a dog"), Entry("1.jpg", b""), Entry("1.txt", b"b" * 512)]


def contents(folder: Path) -> dict[str, bytes | None]:
    return {path.name: None if path.is_dir() else path.read_bytes() for path in sorted(folder.iterdir())}


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    for seed in range(20):
        first, second = tmp_path / "a", tmp_path / "b"
        first.mkdir(exist_ok=True)
        second.mkdir(exist_ok=True)
        make_set(seed, first)
        make_set(seed, second)

    assert contents(first) == contents(second)


@pytest.mark.deep
def test_seeds_reach_every_hurt_and_leave_some_shards_sound(tmp_path: Path) -> None:
    seen: set[str] = set()
    sound = shards = 0
    for seed in range(220):
        made = make_set(seed, tmp_path)
        for shard in made.shards:
            seen |= {hurt.partition("@")[0] for hurt in shard.hurts}
            sound += not shard.hurts
            shards += 1
        made.remove()

    assert not {*SAMPLE_HURTS, *LAYOUT_HURTS, *BYTE_HURTS, "missing", "directory", "zst", "html"} - seen
    assert 0.2 < sound / shards < 0.8
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("tar_format", FORMATS)
@pytest.mark.parametrize("float_time", [False, True])
def test_what_is_written_is_a_tar_with_members_where_it_says(
    tmp_path: Path, tar_format: int, *, float_time: bool
) -> None:
    entries = [*PLAIN, Entry("d" * 150 + "/x.jpg", b"long"), Entry("caf\u00e9.txt", b"", "symlink")]
    archive = write(entries, tar_format, float_time=float_time)  # type: ignore[arg-type]
    (tmp_path / "a.tar").write_bytes(archive.data)

    with tarfile.open(tmp_path / "a.tar") as tar:
        members = tar.getmembers()
    assert [member.name for member in members] == [entry.name for entry in entries]
    assert [member.offset_data - 512 for member in members] == list(archive.headers)
    assert [member.size for member in members] == list(archive.sizes)
    assert archive.data[archive.end :].strip(b"\0") == b""


def test_a_sparse_member_is_read_back_with_its_hole(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(write([Entry("0.jpg", b"x" * 600, "sparse"), *PLAIN], FORMATS[0]).data)

    with tarfile.open(tmp_path / "a.tar") as tar:
        assert tar.getmembers()[0].issparse()
        extracted = tar.extractfile("0.txt")
        assert extracted is not None
        assert extracted.read() == b"a dog"


@pytest.mark.parametrize("name", BYTE_HURTS)
def test_every_hurt_takes_an_empty_archive_too(name: str) -> None:
    for entries in (PLAIN, []):
        for seed in range(20):
            archive = write(entries, FORMATS[seed % 3])
            assert isinstance(BYTE_HURTS[name](archive, Random(seed)), bytes)


@pytest.mark.filterwarnings("ignore:::PIL")
def test_sound_pictures_decode_and_broken_ones_mostly_do_not() -> None:
    image = pytest.importorskip("PIL.Image")
    from io import BytesIO

    def decodes(data: bytes) -> bool:
        try:
            image.open(BytesIO(data)).convert("RGB")
        except (OSError, SyntaxError, ValueError, image.DecompressionBombError):
            return False
        return True

    assert all(decodes(make(Random(seed))) for make in SOUND.values() for seed in range(3))
    broken = [decodes(make(Random(seed))) for make in BROKEN.values() for seed in range(3)]
    assert sum(broken) < len(broken) / 2
    assert image.open(BytesIO(huge_png(5001, 5000))).size == (5001, 5000)
