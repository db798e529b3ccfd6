"""Samples as ranges of a tar: nothing is cut off, nothing is lost silently."""

import io
import tarfile
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.shards.archives import folder, link, tar_bytes
from tests.shards.tars import MemorySource
from wdsflow.pieces.pieces import merge_ranges
from wdsflow.shards.samples.tar_damage import is_harmless
from wdsflow.shards.samples.tar_samples import Samples, TarSample

LONG = "d" * 90 + "/" + "k" * 120


def read(data: bytes) -> tuple[list[TarSample], Samples]:
    samples = Samples(MemorySource(data), contents=True)
    return list(samples), samples


def alone(data: bytes, sample: TarSample, found: Samples) -> list[tuple[str, bytes]]:
    """Read the tar that consists of one sample, and of headers that hold for all."""
    parts = b"".join(
        data[start:end] for start, end in merge_ranges([*found.headers, (sample.start, sample.end)])
    )
    with tarfile.open(fileobj=io.BytesIO(parts + bytes(1024))) as tar:
        return [(info.name, tar.extractfile(info).read()) for info in tar]


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_ranges_hold_each_sample_with_its_extended_headers(form):
    name = "k" * 80 if form == tarfile.USTAR_FORMAT else LONG
    members = [
        (f"{name}{n}.{field}", bytes([n]) * (n * 700)) for n in range(5) for field in ("jpg", "txt")
    ]
    data = tar_bytes(members, form)
    found, samples = read(data)
    assert [sample.key for sample in found] == [f"{name}{n}" for n in range(5)]
    assert [alone(data, sample, samples) for sample in found] == [
        members[n : n + 2] for n in range(0, 10, 2)
    ]
    assert [sample.start for sample in found[1:]] == [sample.end for sample in found[:-1]]
    assert found[0].start == 0


def test_a_global_header_is_carried_along():
    stream = io.BytesIO()
    with tarfile.open(
        fileobj=stream, mode="w", format=tarfile.PAX_FORMAT, pax_headers={"comment": "x"}
    ) as tar:
        for name in ("a.jpg", "a.txt", "b.jpg"):
            info = tarfile.TarInfo(name)
            info.size = 3
            tar.addfile(info, io.BytesIO(b"abc"))
    data = stream.getvalue()
    found, samples = read(data)
    assert samples.headers == [(0, 1024)]
    assert [sample.key for sample in found] == ["a", "b"]
    parts = data[:1024] + data[found[1].start : found[1].end] + bytes(1024)
    with tarfile.open(fileobj=io.BytesIO(parts)) as tar:
        assert tar.pax_headers == {"comment": "x"}
        assert tar.getnames() == ["b.jpg"]


def test_members_of_no_sample_are_counted():
    data = tar_bytes(
        [
            folder("photos"),
            ("photos/a.jpg", b"1"),
            ("__info__", b"{}"),
            ("README", b"r"),
            link("photos/b.jpg", "x"),
        ]
    )
    found, samples = read(data)
    assert [sample.key for sample in found] == ["photos/a"]
    assert samples.left_out == {"directory": 1, "metadata": 1, "no-extension": 1, "link": 1}
    assert samples.members == 5


def test_what_lies_inside_a_sample_stays_in_it():
    data = tar_bytes([("a.jpg", b"1"), ("README", b"r"), ("a.txt", b"2")])
    found, samples = read(data)
    assert [name for name, _ in alone(data, found[0], samples)] == ["a.jpg", "README", "a.txt"]
    assert samples.left_out == {}


def test_a_field_that_comes_twice_begins_another_sample():
    found, _ = read(tar_bytes([("a.jpg", b"1"), ("a.txt", b"x"), ("a.jpg", b"2"), ("a.txt", b"y")]))
    assert [(sample.key, list(sample.fields)) for sample in found] == [("a", ["jpg", "txt"])] * 2


def test_a_sample_whose_contents_are_cut_is_marked():
    members = [(f"{n}.{field}", b"x" * 2000) for n in range(4) for field in ("jpg", "txt")]
    data = tar_bytes(members)
    found, samples = read(data[: 7 * 2560 + 600])
    assert [sample.trouble for sample in found] == ["", "", "", "beside-damage"]
    assert "contents of a member are cut" in samples.damage[0]


def test_a_sample_is_marked_that_looks_like_the_one_before_but_lost_a_member_whose_name_is_known():
    members = [(f"{n}.{field}", b"x" * 2000) for n in range(3) for field in ("jpg", "txt")]
    data = tar_bytes([*members, ("2.json", b"x" * 2000)])
    found, _ = read(data[: 6 * 2560 + 1000])
    assert [(sample.key, list(sample.fields), sample.trouble) for sample in found] == [
        ("0", ["jpg", "txt"], ""),
        ("1", ["jpg", "txt"], ""),
        ("2", ["jpg", "txt"], "beside-damage"),
    ]


def test_a_cut_at_a_border_of_samples_hurts_none():
    members = [(f"{n}.{field}", b"x" * 2000) for n in range(4) for field in ("jpg", "txt")]
    found, samples = read(tar_bytes(members)[: 6 * 2560])
    assert [sample.trouble for sample in found] == ["", "", ""]
    assert samples.damage == ["at byte 15,360 the end mark is missing"]


# After the last block, inside its padding.
@pytest.mark.parametrize("end", [5 * 2560, 4 * 2560 + 512 + 2000])
def test_where_a_cut_between_members_may_have_cost_a_sample_some_the_damage_names_it(end):
    members = [(f"{n}.{field}", b"x" * 2000) for n in range(4) for field in ("jpg", "txt")]
    found, samples = read(tar_bytes(members)[:end])
    assert [sample.trouble for sample in found] == ["", "", "beside-damage"]
    assert [is_harmless(damage) for damage in samples.damage] == [True, False]
    assert samples.damage[1] == "at byte 10,240 a sample lacks members: 2"


def test_a_sample_that_lost_its_first_member_to_damage_is_marked():
    members = [(f"{n}.{field}", b"x" * 2000) for n in range(4) for field in ("jpg", "txt")]
    data = bytearray(tar_bytes(members))
    at = 4 * 2560  # the header of 2.jpg
    data[at : at + 512] = b"\xff" * 512
    found, samples = read(bytes(data))
    assert {sample.key: sample.trouble for sample in found} == {
        "0": "",
        "1": "",
        "2": "beside-damage",
        "3": "",
    }
    assert samples.damage


def test_the_first_sample_of_a_shard_is_marked_where_its_first_member_was_lost_to_damage():
    members = [(f"{n}.{field}", b"x" * 2000) for n in range(4) for field in ("jpg", "txt")]
    data = tar_bytes(members)
    found, _ = read(b"X" + data[1:])  # the checksum is wrong now
    assert {sample.key: sample.trouble for sample in found} == {
        "0": "beside-damage",
        "1": "",
        "2": "",
        "3": "",
    }


def test_damage_far_before_it_does_not_mark_the_last_sample_of_a_shard():
    members = [(f"{n}.{field}", b"x" * 2000) for n in range(4) for field in ("jpg", "txt")]
    data = bytearray(tar_bytes([*members, ("3.json", b"{}")]))
    data[2560 * 4] ^= 1  # the header of 2.jpg
    found, _ = read(bytes(data))
    assert {sample.key: sample.trouble for sample in found} == {
        "0": "",
        "1": "",
        "2": "beside-damage",
        "3": "",
    }
    data[2560 * 8] ^= (
        1  # that of 3.json, whose name now reads 2.json: the checksum tells which byte is wrong
    )
    found, _ = read(bytes(data))
    troubles = {"0": "", "1": "", "2": "beside-damage", "3": "beside-damage"}
    assert {sample.key: sample.trouble for sample in found} == troubles
    # Of the last sample nothing but the jpg.
    found, _ = read(bytes(data[: 2560 * 7]) + b"?" * 512 + bytes(10240))
    assert {sample.key: sample.trouble for sample in found}["3"] == "beside-damage"


def members_of(key, *fields):
    return [(f"{key}.{field}", b"x" * 2000) for field in fields]


@pytest.mark.parametrize(
    "parts",
    [
        [members_of(key, "jpg", "txt") for key in range(3)],
        [
            members_of(0, "jpg", "txt") + members_of(1, "jpg"),
            members_of(1, "txt"),
            members_of(2, "png", "json"),
        ],
        [[folder("a")], [], members_of(0, "jpg", "txt"), []],
    ],
)
def test_whole_archives_one_behind_another_have_whole_samples(parts):
    found, samples = read(b"".join(map(tar_bytes, parts)))
    whole = [
        (sample.key, list(sample.fields)) for part in parts for sample in read(tar_bytes(part))[0]
    ]
    assert [(sample.key, list(sample.fields)) for sample in found] == whole
    assert not any(sample.trouble for sample in found)
    assert not samples.damage


def test_zeros_in_the_place_of_members_are_damage_and_no_end_of_an_archive():
    data = bytearray(
        tar_bytes([member for key in range(4) for member in members_of(key, "jpg", "txt")])
    )
    data[2560 * 4 : 2560 * 5] = bytes(2560)  # 2.jpg
    found, _ = read(bytes(data))
    assert {sample.key: sample.trouble for sample in found} == {
        "0": "",
        "1": "",
        "2": "beside-damage",
        "3": "",
    }
    behind = tar_bytes(members_of(4, "jpg", "txt"))
    found, _ = read(bytes(data[: 2560 * 5]) + b"?" * 5120 + bytes(10240) + behind)  # 3 is lost, too
    assert {sample.key: sample.trouble for sample in found} == {"0": "", "1": "", "4": ""}


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=12))
def test_merged_ranges_cover_the_same_bytes_once(pieces):
    ranges = [(start, start + size) for start, size in pieces]
    merged = merge_ranges(ranges)
    assert {at for start, end in merged for at in range(start, end)} == {
        at for start, end in ranges for at in range(start, end)
    }
    assert all(before[1] < after[0] for before, after in pairwise(merged))
