"""Flipped bits in compressed shards: each one is detected.

No command writes a byte that may be wrong.
"""

import bz2
import gzip
import lzma
from pathlib import Path
from random import Random

import pytest

from tests.cli.test_filter import run
from tests.shards.archives import JPEG, read_tar, tar_bytes
from tests.shards.test_cut_streams import PACKERS, opened  # noqa: F401 - a fixture
from wdsflow.pieces.view_source import view_of
from wdsflow.shards.source.base import single_shard
from wdsflow.shards.source.opening import open_source
from wdsflow.shards.tar.walk import Walk
from wdsflow.training.feed.catalog.sample_catalog import Catalog

R = Random(25)
ENTRIES = [
    (f"{number:04}.{field}", data)
    for number in range(30)
    for field, data in (
        ("jpg", JPEG + R.randbytes(R.randrange(800))),
        ("txt", f"a cat {R.random()}".encode()),
    )
]
TAR = tar_bytes(ENTRIES)
HALF = TAR.index(b"0015.jpg")
STREAMS = {
    **PACKERS,
    "two gz": lambda data: gzip.compress(data[:HALF], 1) + gzip.compress(data[HALF:], 9),
    "two bz2": lambda data: bz2.compress(data[:HALF]) + bz2.compress(data[HALF:]),
    "two xz": lambda data: lzma.compress(data[:HALF]) + lzma.compress(data[HALF:]),
    "two xz with padding": lambda data: (
        lzma.compress(data[:HALF]) + bytes(64) + lzma.compress(data[HALF:])
    ),
    "two gz with padding": lambda data: (
        gzip.compress(data[:HALF]) + bytes(512) + gzip.compress(data[HALF:])
    ),
    "two zst": lambda data: PACKERS["zst"](data[:HALF]) + PACKERS["zst"](data[HALF:]),
}


def flipped(packed: bytes, bit: int) -> bytes:
    changed = bytearray(packed)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def unpacked(path: Path):
    """Return all bytes of a shard that are trusted, and whether anything was found wrong."""
    with open_source(single_shard(str(path))) as source:
        if source.compression is None:
            return b"", True
        data = b""
        while (more := source.read_at(len(data), 1 << 20)) or source.continue_past_end():
            data += more
        fault = source.fault
        return data[: len(data) if fault is None else fault.trusted], bool(fault or source.damage)


@pytest.mark.parametrize(
    ("kind", "flips"),
    [
        *((kind, 25) for kind in STREAMS),
        *(pytest.param(kind, 3000, marks=pytest.mark.deep) for kind in STREAMS),
    ],
)
def test_no_flipped_bit_makes_wrong_bytes_trusted_or_loses_some_silently(
    kind, flips, tmp_path: Path
):
    packed, path, chance = STREAMS[kind](TAR), tmp_path / "a.tar", Random(flips)
    for bit in chance.sample(range(8 * len(packed)), flips):
        path.write_bytes(flipped(packed, bit))
        data, wrong = unpacked(path)
        assert TAR.startswith(data), bit
        assert wrong or data == TAR, bit


@pytest.mark.parametrize("kind", STREAMS)
def test_healthy_streams_are_trusted_whatever_zeros_follow_them(kind, tmp_path: Path):
    path = tmp_path / "a.tar"
    for padding in (b"", bytes(40_000)):
        path.write_bytes(STREAMS[kind](TAR) + padding)
        with open_source(single_shard(str(path))) as source:
            source.drain()
            assert source.fault is None
        assert unpacked(path)[0] == TAR


def test_of_a_stream_whose_end_cannot_be_read_no_byte_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def fail() -> None:
        raise OSError("the disk does not answer")

    path = tmp_path / "a.tar"
    path.write_bytes(STREAMS["gz"](TAR))
    with open_source(single_shard(str(path))) as source:
        monkeypatch.setattr(source, "drain", fail)
        walk = Walk(source)
        members = [name for batch in walk for name, *_ in batch.rows]

    assert len(members) == len(ENTRIES)
    assert walk.seen["tar.damaged-stream"].detail == (
        "its end cannot be read: the disk does not answer: none of its bytes can be trusted"
    )


@pytest.mark.parametrize("kind", ["two gz", "two bz2", "two xz", "two zst"])
def test_a_stream_whose_start_is_damaged_is_not_taken_for_the_end(kind, tmp_path: Path):
    path = tmp_path / "a.tar"
    first = len(
        PACKERS[kind.removeprefix("two ")](TAR[:HALF])
        if kind != "two bz2"
        else bz2.compress(TAR[:HALF])
    )
    if kind == "two gz":
        first = len(gzip.compress(TAR[:HALF], 1))
    path.write_bytes(flipped(STREAMS[kind](TAR), 8 * first))
    assert unpacked(path) == (TAR[:HALF], True)


def test_a_wrong_checksum_is_noticed_wherever_the_bytes_come_from(opened):  # noqa: F811
    packed = gzip.compress(TAR)
    with opened(flipped(packed, 4 * len(packed))) as source:
        walk = Walk(source)
        members = sum(len(batch.rows) for batch in walk)
        assert members == len(ENTRIES)
        assert walk.seen["tar.damaged-stream"].detail == (
            "damaged gzip stream: its checksum or length does not match its contents: none of its bytes can be trusted"
        )


def test_blocks_of_bzip2_that_were_checked_stay_trusted(tmp_path: Path):
    data = tar_bytes([(f"{number:04}.bin", R.randbytes(5000)) for number in range(60)])
    packed, path = bz2.compress(data, 1), tmp_path / "a.tar"
    path.write_bytes(flipped(packed, 8 * len(packed) * 6 // 10))
    trusted, _ = unpacked(path)
    assert data.startswith(trusted)
    assert len(trusted) > 90_000


def test_training_reports_a_wrong_checksum_also_where_it_reads_only_some_samples(tmp_path: Path):
    packed, path = gzip.compress(TAR), tmp_path / "a.tar.gz"
    path.write_bytes(flipped(packed, 4 * len(packed)))
    for view in (None, lambda _, source: view_of(source, [(0, HALF)])):
        catalog, found = Catalog(("jpg",), ("txt",), allow_pipe=False), []
        catalog.on_damage, catalog.view = found.append, view
        assert len(list(catalog.samples(single_shard(str(path))))) == (30 if view is None else 15)
        assert len(found) == 1
        assert "its checksum or length does not match" in found[0].detail
    path.write_bytes(packed)
    with view_of(open_source(single_shard(str(path))), [(0, HALF)]) as view:
        assert view.read_at(0, len(TAR)) == TAR[:HALF] + bytes(1024)


COMMANDS = {
    "validate": ("validate", "IN", "--level", "names"),
    "validate, headers": ("validate", "IN", "--level", "headers"),
    "filter": ("filter", "IN", "-o", "OUT", "--where", "caption_length > 3", "--jobs", 0),
    "score": ("measure", "IN", "-o", "OUT", "--scores", "caption_length", "--jobs", 0),
    "repair": ("repair", "IN", "-o", "OUT"),
    "reshard": ("reshard", "IN", "-o", "OUT", "--samples", 20),
    "reshard, shuffled": ("reshard", "IN", "-o", "OUT", "--samples", 20, "--shuffle", 1),
    "graft": (
        "graft",
        "IN",
        "-o",
        "OUT",
        "--from",
        "TABLE",
        "--on",
        "key",
        "--set",
        "json:cap=cap",
    ),
    "index": ("index", "IN", "--energon", "--sizes"),
}


@pytest.mark.sample(6)
@pytest.mark.parametrize("kind", ["gz", "bz2", "xz", "zst", "two gz"])
@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_calls_the_shard_damaged_and_writes_no_wrong_byte(
    command, kind, tmp_path: Path, capsys
):
    (tmp_path / "in").mkdir()
    packed = STREAMS[kind](TAR)
    other = [(f"1{name}", data) for name, data in ENTRIES]
    (tmp_path / f"in/0.tar.{kind[-3:].strip()}").write_bytes(
        flipped(packed, 8 * len(packed) * 7 // 10)
    )
    (tmp_path / "in/1.tar").write_bytes(tar_bytes(other))
    (tmp_path / "table.csv").write_text(
        "".join(
            [
                "key,cap\n",
                *(f"{name[:-4]},x\n" for name, _ in ENTRIES + other if name.endswith("txt")),
            ]
        )
    )
    places = {"IN": tmp_path / "in", "OUT": tmp_path / "out", "TABLE": tmp_path / "table.csv"}
    assert run(*(places.get(word, word) for word in COMMANDS[command])) == 1
    shown = capsys.readouterr()
    assert "damaged" in shown.out + shown.err
    written = {
        entry
        for path in (tmp_path / "out").glob("*.tar")
        for entry in read_tar(path)
        if not entry[0].endswith("json")
    }
    assert written <= {*ENTRIES, *other}
    if command in ("filter", "repair", "reshard", "graft"):
        assert written >= set(other)
