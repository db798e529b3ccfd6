"""Repair of random messy shards: nothing vanishes, and a second repair changes nothing."""

import tempfile
from collections import defaultdict
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.depth import cases
from tests.shards.archives import read_tar, tar_bytes
from wdsflow import repair_shards
from wdsflow.repair.junk_names import junk_reason
from wdsflow.shards.tar.members import split_name

FOLDERS = st.sampled_from(["", "", "", "./", "d/", "img/", "txt/", "../", "/"])
KEYS = st.sampled_from(["0", "1", "2", "a.v1", "a.v2", "x\ny", "é", "._0", "README", "\udcff"])
FIELDS = st.sampled_from(["jpg", "txt", "json", "JPG", "seg.png", "txt.gz", "png", ""])
SIZES = st.sampled_from([0, 1, 511, 512, 513, 2000])
MEMBERS = st.lists(st.tuples(FOLDERS, KEYS, FIELDS, SIZES), max_size=12)
Entries = list[tuple[str, bytes]]


def entries_of(members: list[tuple[str, str, str, int]], mark: str) -> Entries:
    """No two members have the same contents, unless they are short."""
    return [
        (
            f"{folder}{key}.{field}".rstrip("."),
            f"{mark}{number}:".encode().ljust(size, b".")[: max(size, 4)],
        )
        for number, (folder, key, field, size) in enumerate(members)
    ]


def repaired(data: bytes, folder: Path) -> tuple[Entries, bytes | None]:
    """Repair, twice; the second time must change nothing."""
    (folder / "in.tar").write_bytes(data)
    report = repair_shards(str(folder / "in.tar"), folder / "one")
    shard = report.shards[0]
    assert shard.members + shard.made == shard.written + shard.dropped.total()
    if shard.output is None:
        return [], None
    again = repair_shards(str(folder / "one/in.tar"), folder / "two")
    first, second = (folder / "one/in.tar").read_bytes(), (folder / "two/in.tar").read_bytes()
    assert first == second
    assert not again.merged("fixed")
    assert not again.merged("dropped")
    return read_tar(folder / "one/in.tar"), first


@cases(6)
@given(MEMBERS, MEMBERS, st.booleans())
def test_every_member_that_is_no_junk_comes_out_once_with_its_bytes(first, second, concatenated):
    one, two = entries_of(first, "a"), entries_of(second, "b")
    data = tar_bytes(one) + tar_bytes(two) if concatenated else tar_bytes(one)
    wanted = [
        data
        for name, data in (one + two if concatenated else one)
        if not junk_reason(name) and not is_paper(name)
    ]
    papers = [data for name, data in one + two if is_paper(name)]
    with tempfile.TemporaryDirectory() as folder:
        got, _ = repaired(data, Path(folder))
        contents = [data for _, data in got if data not in papers]
        assert set(contents) <= set(wanted)
        names = [name for name, _ in got]
        assert len(set(names)) == len(names)
        keys = [split_name(name)[0] for name in names]
        runs = [key for before, key in zip([None, *keys], keys, strict=False) if key != before]
        assert len(set(runs)) == len(runs)  # members of one sample lie side by side
        missing = len(wanted) - len(contents)
        assert missing <= duplicates(one) + (duplicates(two) if concatenated else 0)


def is_paper(name: str) -> bool:
    """A README without a picture is dropped."""
    return "README.txt" in name


def duplicates(entries: Entries) -> int:
    """An upper bound of the members that repeat another one's key and field.

    Case and ``./`` are ignored, because a repair may join folders and fold case.
    """
    seen: dict[str, int] = defaultdict(int)
    for name, _ in entries:
        if not junk_reason(name):
            seen[name.replace("./", "").lower()] += 1
    return sum(count - 1 for count in seen.values())


@cases(5)
@given(MEMBERS, st.data())
def test_damaged_shards_are_read_as_far_as_possible(members, draw):
    data = bytearray(tar_bytes(entries_of(members, "a")))
    end = draw.draw(st.integers(0, len(data)), "cut at")
    for place in draw.draw(
        st.lists(st.integers(0, max(0, len(data) - 1)), max_size=2), "damaged bytes"
    ):
        data[place] ^= 0x55
    with tempfile.TemporaryDirectory() as folder:
        repaired(bytes(data[:end]), Path(folder))
