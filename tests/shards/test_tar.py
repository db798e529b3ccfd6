"""What the walk tells beyond tarfile: why it ends, what is behind, and how little it reads."""

import io
import os
import tarfile
import tracemalloc
from random import Random

import pytest

from tests.shards.tars import (
    BLOCK,
    MemorySource,
    by_tarfile,
    by_walk,
    extended,
    header,
    hurt,
    random_tar,
    with_checksum,
)
from wdsflow import check
from wdsflow.scan.evidence import ScanOptions
from wdsflow.scan.scan import scan_shard
from wdsflow.shards.source.base import single_shard
from wdsflow.shards.source.opening import open_source
from wdsflow.shards.tar.members import Member
from wdsflow.shards.tar.walk import Walk


def tar(sizes, *, form=tarfile.USTAR_FORMAT, mtime=0.0, name="{:04d}.jpg", end=True):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=form) as archive:
        for number, size in enumerate(sizes):
            info = tarfile.TarInfo(name.format(number))
            info.size, info.mtime = size, mtime
            archive.addfile(info, io.BytesIO(Random(number).randbytes(size)))
    data = stream.getvalue()
    return data if end else data.rstrip(b"\0") + bytes(-len(data.rstrip(b"\0")) % BLOCK)


def walked(data, *, contents=False):
    walk = Walk(MemorySource(data), contents=contents)
    rows = {False: [], True: []}
    for batch in walk:
        rows[batch.is_past_stop] += batch.members
    return walk, rows[False], rows[True]


def names(members):
    return [member.name for member in members]


def counts(walk):
    return {name: seen.count for name, seen in walk.seen.items()}


def test_offsets_lead_to_the_contents_and_to_the_next_header():
    data = tar([10, 512, 0, 700], form=tarfile.PAX_FORMAT, mtime=1.5)
    _, members, _ = walked(data)
    assert [data[m.data : m.data + m.size] for m in members] == [
        Random(n).randbytes(m.size) for n, m in enumerate(members)
    ]
    assert [m.header for m in members] == [0, *(m.end for m in members[:-1])]
    assert {m.data - m.header for m in members} == {3 * BLOCK}
    assert isinstance(members[0], Member)


def test_members_with_a_time_in_an_extended_header_are_counted():
    walk, members, _ = walked(tar([10] * 50, form=tarfile.PAX_FORMAT, mtime=1.5))
    assert counts(walk) == {"tar.pax-overhead": len(members)}
    walk, _, _ = walked(
        tar([10] * 50, form=tarfile.PAX_FORMAT, name="x" * 120 + "{}.jpg", mtime=1.5)
    )
    assert not counts(walk)  # those headers hold a name, too


def test_a_cut_member_is_not_delivered_and_its_place_is_told():
    data = tar([600, 600, 5000])
    walk, members, beyond = walked(data[:4000])
    assert (names(members), beyond) == (["0000.jpg", "0001.jpg"], [])
    assert walk.stop.kind == "error"
    seen = walk.seen["tar.truncated-data"]
    assert (seen.count, seen.offset, seen.name) == (1, 3072, "0002.jpg")


@pytest.mark.parametrize(
    ("length", "kind", "tally"),
    [
        (3072, "eof", "tar.no-end-blocks"),
        (3100, "silent", "tar.truncated-header"),
        (3000, "error", "tar.no-padding"),
        (3072 + 512, "error", "tar.truncated-data"),
    ],
)
def test_the_place_of_a_cut_decides_how_readers_end(length, kind, tally):
    walk, _, _ = walked(tar([600, 600, 5000])[:length])
    assert walk.stop.kind == kind
    assert counts(walk) == {tally: 1}


def test_members_behind_a_damaged_header_are_found_again():
    data = bytearray(tar([600] * 9))
    data[3 * 1536 + 130] ^= 1
    walk, members, beyond = walked(bytes(data))
    assert names(members) == ["0000.jpg", "0001.jpg", "0002.jpg"]
    assert names(beyond) == [f"000{number}.jpg" for number in (4, 5, 6, 7, 8)]
    assert walk.stop == ("silent", 3 * 1536, "wrong checksum")
    assert counts(walk) == {"tar.bad-header": 1}


def test_members_behind_a_damaged_first_header_are_found_too():
    data = bytearray(tar([600] * 3))
    data[0] ^= 1
    walk, members, beyond = walked(bytes(data))
    assert (members, names(beyond)) == ([], ["0001.jpg", "0002.jpg"])
    assert walk.stop.kind == "unreadable"
    assert counts(walk) == {"tar.bad-header": 1}


def test_headers_without_magic_are_found_again():
    data = tar([600] * 5)
    for at in range(0, 5 * 1536, 1536):
        data = with_checksum(data[: at + 257] + bytes(255) + data[at + 512 :], at)
    data = data[:1536] + b"\1" + data[1537:]
    _, members, beyond = walked(data)
    assert (names(members), names(beyond)) == (["0000.jpg"], ["0002.jpg", "0003.jpg", "0004.jpg"])


def test_an_archive_behind_the_end_mark_is_told_from_junk_and_from_padding():
    one, other = tar([600]), tar([700], name="other{}.txt")
    walk, members, beyond = walked(one + other)
    assert (names(members), names(beyond)) == (["0000.jpg"], ["other0.txt"])
    assert walk.stop.kind == "end"
    assert counts(walk) == {"tar.second-archive": 1}
    assert walk.seen["tar.second-archive"].offset == len(one)
    assert counts(walked(one + b"junk" * 300)[0]) == {"tar.trailing-data": 1}
    assert counts(walked(one + bytes(3 << 20))[0]) == {}
    assert counts(walked(one + bytes(3 << 20) + other)[0]) == {"tar.second-archive": 1}
    assert counts(walked(one + other + other + b"x")[0]) == {
        "tar.second-archive": 2,
        "tar.trailing-data": 1,
    }


@pytest.mark.parametrize(
    ("data", "detail"),
    [
        (b"", "empty file"),
        (b"<!DOCTYPE html><html>404 not found</html>" * 40, "not a tar: looks like HTML page"),
        (b"\n <html>gone</html>", "not a tar: looks like HTML page"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n",
            "not a tar: looks like Git LFS pointer",
        ),
        (b'{"error": "not found"}', "not a tar: looks like JSON text"),
        (
            b"<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>",
            "not a tar: looks like XML document",
        ),
        (b"PK\x03\x04" + bytes(2000), "not a tar: looks like zip archive"),
        (b"PAR1" + bytes(2000), "not a tar: looks like Parquet file"),
        (b"no such key\n", "not a tar: looks like text"),
        (
            b"\x01\x02\x03" * 1000,
            "a number field holds b'\\x02\\x03\\x01\\x02\\x03\\x01\\x02\\x03'",
        ),
    ],
)
def test_what_is_no_tar_is_named(data, detail):
    walk, members, beyond = walked(data)
    assert (members, beyond, walk.seen) == ([], [], {})
    assert walk.stop == ("unreadable", 0, detail)


def test_zeros_are_an_empty_archive():
    for length in (512, 1024, 10240, 5 << 20):
        walk, members, _ = walked(bytes(length))
        assert (members, walk.stop.kind, walk.seen) == ([], "end", {})


def test_links_folders_and_devices_are_delivered_with_their_kind():
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for number, kind in enumerate((b"0", b"1", b"2", b"5", b"6", b"7")):
            info = tarfile.TarInfo(f"{number}.jpg")
            info.type, info.linkname = kind, "0.jpg"
            archive.addfile(info)
    walk, members, _ = walked(stream.getvalue())
    assert [member.kind for member in members] == [
        "file",
        "link",
        "link",
        "directory",
        "special",
        "file",
    ]
    # A contiguous file.
    assert counts(walk) == {
        "tar.link": 2,
        "tar.directory": 1,
        "tar.special": 1,
    }


def test_a_global_record_that_renames_all_is_obeyed():
    body = b"13 path=same\n"
    data = header(b"g", len(body)) + body.ljust(BLOCK, b"\0") + tar([600] * 4)
    assert names(walked(data)[1]) == ["same"] * 4


def test_contents_lie_in_the_window_or_can_be_read():
    sizes = [1000, 300 << 10, 600 << 10, 20, 2 << 20, 500 << 10, 0, 700 << 10, 5] * 3
    data = tar(sizes)
    walk = Walk(MemorySource(data), contents=True)
    seen = 0
    for batch in walk:
        for member in batch.members:
            expected = Random(seen).randbytes(member.size)
            start = member.data - batch.base
            if member.size <= 512 << 10:
                assert batch.window[start : start + member.size] == expected
            assert walk.read(member) == expected
            assert walk.read(member, 3, 100) == expected[3:103]
            seen += 1
    assert seen == len(sizes)


@pytest.mark.parametrize(("size", "samples", "share"), [(1_500_000, 12, 0.03), (200_000, 60, 0.06)])
def test_large_members_are_hopped_over(tmp_path, size, samples, share):
    path = tmp_path / "large.tar"
    path.write_bytes(tar([size, 100, 300] * samples, form=tarfile.PAX_FORMAT, mtime=1.5))
    with open_source(single_shard(str(path))) as source:
        read, _ = by_walk(source)
        assert len(read.members) == 3 * samples
        assert source.bytes_read <= share * path.stat().st_size + (1 << 20)


@pytest.mark.parametrize("contents", [False, True])
def test_members_of_gigabytes_are_counted_and_hopped_over(tmp_path, contents):
    path = tmp_path / "huge.tar"
    most = 2 << 30  # what some readers take, and not a byte more
    sizes = (300, most, most + 1, 300)
    with open(path, "wb") as file:
        for number, size in enumerate(sizes):
            file.write(header(b"0", size, f"{number}.mp4"))
            file.seek((size + 511) // 512 * 512, os.SEEK_CUR)
        file.truncate(file.tell() + 1024)
    with open_source(single_shard(str(path))) as source:
        read, walk = by_walk(source, contents=contents)
        assert [row[:2] for row in read.members] == [
            (f"{number}.mp4", size) for number, size in enumerate(sizes)
        ]
        assert counts(walk) == {"tar.huge-member": 1}
        assert walk.seen["tar.huge-member"].detail == "2,147,483,649 bytes"
        assert source.bytes_read < 2 << 20


@pytest.mark.parametrize("level", ["names", "headers"])
@pytest.mark.parametrize("name", ["0.mp4", f"{'folder/' * 20}0.mp4"], ids=["short", "long"])
@pytest.mark.parametrize(
    ("form", "time"),
    [
        (tarfile.USTAR_FORMAT, 0),
        (tarfile.GNU_FORMAT, 0),
        (tarfile.PAX_FORMAT, 0),
        (tarfile.PAX_FORMAT, 1.5),
    ],
    ids=["ustar", "gnu", "pax", "pax with times"],
)
def test_a_member_of_gigabytes_is_counted_also_if_it_is_the_only_one(
    tmp_path, form, time, name, level
):
    """Format, name length and time decide whether its header is read fully or skimmed."""
    path = tmp_path / "huge.tar"
    info = tarfile.TarInfo(name)
    info.mtime = time
    for info.size in (2 << 30, (2 << 30) + 1):
        with open(path, "wb") as file:
            at = file.write(info.tobuf(form))
            file.truncate(at + (info.size + 511) // 512 * 512 + 1024)
        shard = scan_shard(single_shard(str(path)), ScanOptions(level))
        assert [
            each.count for what, each in shard.tallies.items() if what == "tar.huge-member"
        ] == [1] * (info.size > 2 << 30)
    assert (shard.members, shard.stop.kind) == (1, "end")
    assert shard.tally("tar.huge-member").count == 1
    (finding,) = check(path, level=level, jobs=1, select=["W015"]).findings
    assert finding.key == name.removesuffix(".mp4")
    assert shard.bytes_read < 2 << 20


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize(
    "name",
    [
        "x" * 120 + "{:03d}.jpg",
        "d" * 90 + "/" + "x" * 90 + "{:03d}.jpg",
        "\xe9{:03d}.jpg",
        "\udcff{:03d}.jpg",
    ],
)
def test_long_and_foreign_names_come_out_whole(form, name):
    _, members, _ = walked(
        tar([10, 600] * 20, form=form, name=name, mtime=1.5 if form == tarfile.PAX_FORMAT else 0)
    )
    assert names(members) == [name.format(number) for number in range(40)]


@pytest.mark.parametrize("contents", [False, True])
@pytest.mark.parametrize("claimed", [2**31, 2**62, 2**88 - 1])
def test_a_size_beyond_all_bounds_is_a_cut(claimed, contents):
    data = tar([600, 600, 600])
    field = b"\x80" + claimed.to_bytes(11, "big")
    data = with_checksum(data[: 1536 + 124] + field + data[1536 + 136 :], 1536)
    walk, members, beyond = walked(data, contents=contents)
    assert (names(members), names(beyond)) == (["0000.jpg"], ["0002.jpg"])
    assert walk.stop.kind == "error"
    assert counts(walk) == {"tar.truncated-data": 1}


def endless_map():
    block = bytearray(header(b"S", 0))
    block[482] = 1
    return (
        with_checksum(bytes(block), 0)
        + (b"00000000001\x0000000000001\x00" * 21 + b"\1" * 8) * 20_000
    )


def map_of_millions():
    value = b" GNU.sparse.map=" + b"1," * (2 << 20) + b"1\n"
    records = b"%d" % (len(value) + 7) + value
    return header(b"x", len(records)) + records + bytes(-len(records) % BLOCK) + tar([10])


def in_extended_header(body):
    return header(b"x", len(body)) + body + bytes(-len(body) % BLOCK) + tar([10])


HOSTILE = {
    "a chain of extended headers": lambda: extended(Random(1), b"x") * 5000 + tar([10]),
    "a chain of long names": lambda: (header(b"L", 600) + b"a" * 1024) * 4000 + tar([10]),
    "an extended header of gigabytes": lambda: (
        header(b"x", (8 << 30) - 1) + bytes(2048) + tar([10])
    ),
    "many extended headers of gigabytes": lambda: (
        (header(b"x", (8 << 30) - 1) + tar([10], end=False)) * 3000
    ),
    "many extended headers of the whole rest": lambda: (
        header(b"x", 4 << 20) * (8 << 11) + tar([10])
    ),
    "megabytes of digits": lambda: in_extended_header(b"1" * (8 << 20)),
    "overlapping records": lambda: in_extended_header(b"2 " * (1 << 20) + b"x="),
    "a record without an end": lambda: in_extended_header(b"2 a" * (1 << 20)),
    "many small records": lambda: in_extended_header(b"5 a=\n" * (1 << 17)),
    "wrong checksums only": lambda: (header(b"0", 5)[:-1] + b"x") * 20_000,
    "magic everywhere": lambda: b"ustar" * (1 << 20),
    "a map of millions": map_of_millions,
    "an endless old map": endless_map,
}


def negative(size):
    return b"\xff" * 4 + (size % 2**64).to_bytes(8, "big")


def with_size(block, field):
    return with_checksum(block[:124] + field + block[136:BLOCK], 0)


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        (
            lambda: with_size(header(b"x", 0), negative(-1024)),
            "an extended header claims -1,024 bytes",
        ),
        (
            lambda: header(b"S", 0)[:482] + b"\1" + header(b"S", 0)[483:],
            "the map of a sparse member is cut or too long",
        ),
        (
            lambda: extended_of(4 << 20) * 3,
            "extended headers of one member have more than 8,388,608 bytes",
        ),
    ],
    ids=["a negative size", "a map that is cut", "many large ones"],
)
def test_a_member_whose_extended_headers_cannot_be_read_ends_the_walk_with_the_reason(
    headers, why, monkeypatch
):
    monkeypatch.setattr("wdsflow.shards.tar.tar_entry.refuses_negative", lambda: False)
    monkeypatch.setattr("wdsflow.shards.tar.tar_entry.LIMIT", 8 << 20)
    before = tar([600], end=False)
    made = headers()
    made = with_checksum(made, 0) if made[156:157] == b"S" else made + tar([10])
    walk, members, _ = walked(before + made)
    assert names(members) == ["0000.jpg"]
    assert walk.stop == ("error", len(before), why)


def extended_of(size):
    comment = b"%d comment=" % size
    return header(b"x", size) + comment.ljust(size - 1, b"x") + b"\n"


def test_a_size_that_leads_back_to_the_start_ends_the_walk_silently():
    data = tar([600, 600], end=False)
    back = with_size(data, negative(-512)) + data[BLOCK:]
    assert by_tarfile(back).end == "silent"
    walk, members, _ = walked(back)
    assert (names(members), walk.stop.kind) == (["0000.jpg"], "silent")
    assert walk.stop.offset == 0
    why = "a negative size leads back to the start, which tarfile takes for the end"
    assert walk.stop.detail == why
    assert counts(walk)["tar.bad-header"] == 1


@pytest.mark.sample(3)
@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_archives_cost_neither_time_nor_memory(case):
    data = HOSTILE[case]()
    tracemalloc.start()
    try:
        walk, _, _ = walked(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert walk.stop is not None
    assert peak < (30 << 20) + 3 * len(data)


@pytest.mark.deep
def test_thousands_of_mutations_end_without_an_exception():
    for seed in range(3000):
        r = Random(seed)
        data = hurt(r, hurt(r, random_tar(r)))
        walk, members, beyond = walked(data, contents=seed % 2 == 0)
        assert walk.stop is not None
        assert len(members) + len(beyond) <= len(data) // BLOCK


@pytest.mark.parametrize("kind", [b"x", b"g", b"L"])
def test_an_extended_header_that_is_too_long_to_hold_is_refused_with_its_place_and_the_reason(kind):
    before, size = tar([600], end=False), 5 << 20
    comment = b"%d comment=" % size
    data = (
        before
        + header(kind, size)
        + comment.ljust(size - 1, b"x")
        + b"\n"
        + tar([700], name="{:03d}.txt")
    )
    walk, members, beyond = walked(data)
    assert (names(members), names(beyond)) == (["0000.jpg"], [])  # its name may be in that header
    assert walk.stop == (
        "error",
        len(before),
        "an extended header has 5,242,880 bytes; the limit is 4,194,304",
    )
    assert counts(walk) == {"tar.bad-header": 1}
