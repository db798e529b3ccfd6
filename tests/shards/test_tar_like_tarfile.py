"""The walk delivers what Python's tarfile delivers in stream mode, and ends where it ends."""

import io
import subprocess
import tarfile
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.shards.tars import MemorySource, by_tarfile, by_walk, hurt, random_tar
from wdsflow.shards.tar import windows

SEEDS = st.integers(0, 2**40)


def assert_the_same(data: bytes, seed: int) -> None:
    expected = by_tarfile(data)
    for contents in (False, True):
        found, walk = by_walk(MemorySource(data), contents=contents)
        if "tar.sparse" not in walk.seen:
            assert found == expected, seed
            continue
        # Maps of sparse members are not followed: tarfile may find one damaged, or find other
        # members behind it.
        kinds = [kind for _, _, kind in found.members]
        whole = kinds.index("sparse") if "sparse" in kinds else len(kinds)
        assert found.members[:whole] == expected.members[:whole], seed


@given(seed=SEEDS)
def test_healthy_tars_are_read_alike(seed):
    assert_the_same(random_tar(Random(seed)), seed)


@given(seed=SEEDS)
def test_hurt_tars_are_read_alike(seed):
    r = Random(seed)
    data = random_tar(r)
    for _ in range(r.choice([1, 1, 1, 2, 3])):
        data = hurt(r, data)
    assert_the_same(data, seed)


@pytest.mark.sample(4)
@pytest.mark.parametrize("seed", range(12))
def test_a_cut_at_every_place_is_read_alike(seed):
    r = Random(seed)
    data = random_tar(r)[:6000]
    for at in {*range(0, len(data), 37), *range(0, len(data), 512), *range(511, len(data), 512)}:
        assert_the_same(data[:at], at)


@pytest.mark.deep
@given(seed=SEEDS)
def test_the_size_of_the_windows_does_not_matter(seed):
    r = Random(seed)
    data = hurt(r, random_tar(r))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(windows, "_STREAM", r.choice([512, 1000, 2048, 5000]))
        assert_the_same(data, seed)


def test_a_sparse_file_of_gnu_tar_is_read_alike_in_all_formats(tmp_path):
    with open(tmp_path / "holes.bin", "wb") as file:
        for at in range(0, 4 << 20, 100 << 10):
            file.seek(at)
            file.write(b"x" * 5000)
        file.truncate(5 << 20)
    (tmp_path / "after.txt").write_text("after")
    forms = {"gnu": [], "posix": ["0.0", "0.1", "1.0"]}
    for form, versions in forms.items():
        for version in versions or [""]:
            options = [f"--sparse-version={version}"] if version else []
            archive = tmp_path / f"{form}{version}.tar"
            command = [
                "tar",
                "-C",
                tmp_path,
                "-S",
                "-H",
                form,
                *options,
                "-cf",
                archive,
                "holes.bin",
                "after.txt",
            ]
            if subprocess.run(command, capture_output=True, check=False).returncode:
                pytest.skip("no GNU tar here")
            data = archive.read_bytes()
            assert_the_same(data, 0)
            assert by_walk(MemorySource(data))[0].members == [
                ("holes.bin", 5 << 20, "sparse"),
                ("after.txt", 5, "file"),
            ]


def test_a_map_that_tarfile_cannot_read_ends_the_walk_also_at_a_link():
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(tarfile.TarInfo("a.txt"))
        link = tarfile.TarInfo("0.jpg")
        link.type, link.linkname, link.pax_headers = (
            tarfile.SYMTYPE,
            "1.jpg",
            {"GNU.sparse.map": ""},
        )
        tar.addfile(link)
    assert by_tarfile(buffer.getvalue()).end == "error"
    assert_the_same(buffer.getvalue(), 0)


def test_names_of_healthy_tars_are_those_of_gnu_tar(tmp_path):
    for seed in range(40):
        data = random_tar(Random(seed), odd=False)
        (tmp_path / "a.tar").write_bytes(data)
        command = ["tar", "--quoting-style=literal", "-tPf", tmp_path / "a.tar"]
        try:
            listed = subprocess.run(command, capture_output=True, check=True, env={"LC_ALL": "C"})
        except (FileNotFoundError, subprocess.CalledProcessError):
            pytest.skip("no GNU tar here")
        names = [
            line.decode("utf-8", "surrogateescape").rstrip("/")
            for line in listed.stdout.split(b"\n")[:-1]
        ]
        assert [name for name, _, _ in by_walk(MemorySource(data))[0].members] == names
