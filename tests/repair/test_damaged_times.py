"""Headers in which only the time is damaged: the member is recovered.

A repair never invents a member.
"""

import tarfile
from pathlib import Path

import pytest

from tests.training.shards import samples, write_tar
from wdsflow import repair_shards

TIME, NAME, CHECKSUM = 136, 0, 148
MEMBERS = samples(0, 4)


def damaged(folder: Path, member: int, changes: dict[int, bytes]) -> str:
    """Write a tar, and change bytes in the header of a member, by their offsets in it."""
    path = write_tar(folder / "0.tar", MEMBERS)
    with tarfile.open(path) as tar:
        header = tar.getmembers()[member].offset
    data = bytearray(path.read_bytes())
    for offset, new in changes.items():
        data[header + offset : header + offset + len(new)] = new
    path.write_bytes(data)
    return str(path)


def contents(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar}


@pytest.mark.sample(1)
@pytest.mark.parametrize("member", [1, 2, 3, len(MEMBERS) - 1])
@pytest.mark.parametrize(
    "time", [b"\xb0", b"\x00\xff\x81\x90", b"\xaa" * 11], ids=["a byte", "four bytes", "all"]
)
def test_a_member_with_a_damaged_time_is_recovered(tmp_path: Path, member: int, time: bytes):
    report = repair_shards(damaged(tmp_path, member, {TIME: time}), tmp_path / "out")
    assert contents(tmp_path / "out" / "0.tar") == dict(MEMBERS)
    assert not report.lost
    assert report.shards[0].fixed["damaged times in headers"] == 1


@pytest.mark.parametrize(
    "changes",
    [
        {NAME + 6: b"9"},
        {TIME: b"\xb0", NAME + 6: b"\xf9"},
        {TIME: b"\xb0", NAME + 6: b"3"},
        {TIME: b"\xb0", NAME + 9: b"q"},
        {TIME: b"\xb0", 124: b"00000000001"},
        {TIME: b"\xb0", CHECKSUM: b"7"},
        {TIME: b"7"},
    ],
    ids=[
        "name",
        "time and name",
        "time and key",
        "time and field",
        "time and size",
        "time and checksum",
        "a digit",
    ],
)
def test_no_member_is_invented(tmp_path: Path, changes: dict[int, bytes]):
    report = repair_shards(damaged(tmp_path, 2, changes), tmp_path / "out")
    kept = contents(tmp_path / "out" / "0.tar")
    assert kept.items() <= dict(MEMBERS).items()
    assert MEMBERS[2][0] not in kept
    assert report.lost
