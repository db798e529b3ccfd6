"""Truncated compressed shards follow one rule.

It is the same for all compressions, cuts and sources of the bytes.
"""

import bz2
import gzip
import lzma
import zlib
from pathlib import Path
from typing import Any

import pytest
import zstandard

from tests.servers import http_server
from tests.shards.archives import JPEG, tar_bytes
from tests.shards.tars import by_tarfile, by_walk
from wdsflow import Recipe, RunOptions, check, filter_shards, repair_shards
from wdsflow.shards.source.base import single_shard
from wdsflow.shards.source.opening import open_source
from wdsflow.training.feed.catalog.sample_catalog import Catalog

pytest.importorskip("aiohttp")

TAR = tar_bytes(
    [
        (f"{n:03}.{kind}", data)
        for n in range(60)
        for kind, data in (("jpg", JPEG * 40), ("txt", b"a cat"))
    ]
)
BORDER = TAR.index(b"040.jpg")
PACKERS = {
    "gz": gzip.compress,
    "bz2": lambda data: bz2.compress(data, 1),
    "xz": lzma.compress,
    "zst": zstandard.ZstdCompressor(write_checksum=True).compress,
}
UNPACKERS = {
    "gz": lambda: zlib.decompressobj(31),
    "bz2": bz2.BZ2Decompressor,
    "xz": lzma.LZMADecompressor,
    "zst": lambda: zstandard.ZstdDecompressor().decompressobj(),
}
CUTS = {
    "inside its first bytes": lambda pack: pack(TAR)[:3],
    "inside its header": lambda pack: pack(TAR)[:9],
    "in the middle": lambda pack: pack(TAR)[: len(pack(TAR)) // 2],
    "in its checksum, where a member ends": lambda pack: pack(TAR[:BORDER])[:-2],
    "in its checksum, after the end of the tar": lambda pack: pack(TAR)[:-2],
    "after a byte of a second one": lambda pack: pack(TAR[:BORDER]) + pack(TAR[BORDER:])[:1],
    "in the middle of a second one": lambda pack: (
        pack(TAR[:BORDER]) + pack(TAR[BORDER:])[: len(pack(TAR[BORDER:])) // 2]
    ),
}
NOTICED = {"tar.cut-stream", "tar.truncated-data", "tar.truncated-header"}


def unpacked(kind, packed):
    """Return what Python's decompressors make of a truncated stream.

    A stream that follows the first one is unpacked too.
    """
    data = b""
    while packed:
        engine: Any = UNPACKERS[kind]()
        data += engine.decompress(packed)
        packed = engine.unused_data if engine.eof else b""
    return data


@pytest.fixture(params=["file", "pipe", "http"])
def opened(request, tmp_path):
    """Return what opens bytes as a shard, by one of the ways to a source that there are."""
    with http_server(files := {}) as (base, _):

        def opens(data):
            files["a.tar"] = data
            path = tmp_path / "a.tar"
            path.write_bytes(data)
            url = {"file": str(path), "pipe": f"pipe:cat {path}", "http": f"{base}/a.tar"}[
                request.param
            ]
            return open_source(single_shard(url), allow_pipe=True)

        yield opens


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", PACKERS)
def test_a_stream_that_is_cut_is_called_so_wherever_it_comes_from(kind, opened):
    for cut in CUTS.values():
        packed = cut(PACKERS[kind])
        with opened(packed) as source:
            read, walk = by_walk(source)
        assert source.is_truncated
        assert "cut" in source.damage
        assert walk.seen.keys() & NOTICED
        if kind != "zst":
            assert read == by_tarfile(packed)


@pytest.mark.sample(4)
@pytest.mark.parametrize("kind", PACKERS)
def test_what_is_whole_is_never_called_cut(kind, opened):
    pack = PACKERS[kind]
    for packed in (
        pack(TAR),
        pack(TAR) + b"junk",
        pack(TAR[:BORDER]) + pack(TAR[BORDER:]),
        b"",
        TAR,
    ):
        with opened(packed) as source:
            _, walk = by_walk(source)
        assert not source.is_truncated
        assert not walk.seen.keys() & NOTICED


def test_frames_to_skip_are_no_end_of_a_zstd_stream(opened):
    frame = PACKERS["zst"](TAR)
    # As pzstd writes them.
    skipped = b"\x50\x2a\x4d\x18\x04\x00\x00\x00" + len(frame).to_bytes(4, "little")
    with opened(skipped + frame) as source:
        assert len(by_walk(source)[0].members) == 120
        assert not source.is_truncated
    with opened(skipped + frame + skipped[:6]) as source:
        assert by_walk(source)[0].end == "end"
        assert source.is_truncated


def test_a_command_that_fails_is_named_also_where_it_compresses(tmp_path):
    path = tmp_path / "a.tar.gz"
    path.write_bytes(gzip.compress(TAR)[:-20])
    with open_source(single_shard(f"pipe:cat {path}; exit 56"), allow_pipe=True) as source:
        by_walk(source)
    assert source.damage == "the gz stream is cut: the command ended with status 56"


@pytest.mark.parametrize("kind", PACKERS)
def test_the_feed_of_training_reports_a_cut_too(kind, tmp_path: Path):
    shard = tmp_path / "a.tar"
    shard.write_bytes(PACKERS[kind](TAR[:BORDER])[:-2])
    catalog, found = Catalog(("jpg",), ("txt",), allow_pipe=False), []
    catalog.on_damage = found.append
    assert len(list(catalog.samples(single_shard(str(shard))))) == 40
    assert [(damage.what, damage.detail) for damage in found] == [
        ("cut", f"the {kind} stream is cut at byte {BORDER:,}")
    ]


@pytest.mark.sample(3)
@pytest.mark.parametrize("where", CUTS)
@pytest.mark.parametrize("kind", PACKERS)
def test_of_a_cut_shard_all_that_is_there_is_kept_and_the_loss_reported(
    kind, where, tmp_path: Path
):
    packed = CUTS[where](PACKERS[kind])
    data = unpacked(kind, packed)
    url, plain = str(tmp_path / f"a.tar.{kind}"), str(tmp_path / "plain.tar")
    Path(url).write_bytes(packed)
    Path(plain).write_bytes(data)
    nothing_lost = where == "in its checksum, after the end of the tar"
    nothing_left = len(data) < 512

    def filtered(path, name):
        return filter_shards(path, tmp_path / name, Recipe(where="bytes > 0"), RunOptions(jobs=0))

    found = {finding.code: finding for finding in check([url]).findings}
    assert found["W001"].severity == ("warning" if nothing_lost else "error")
    assert "W005" not in found
    kept, as_plain = filtered(url, "kept"), filtered(plain, "as-plain")
    assert (kept.total("kept"), kept.merged("quarantined")) == (
        as_plain.total("kept"),
        as_plain.merged("quarantined"),
    )
    assert bool(kept.lost or kept.failures) != nothing_lost
    report = repair_shards(url, tmp_path / "repaired")
    assert report.total("samples_written") == repair_shards(plain, tmp_path / "from-plain").total(
        "samples_written"
    )
    assert report.lost != nothing_lost
    assert (report.total("members") == 0) == nothing_left
