"""Shards from an HTTP server.

Tests ranges and no ranges, honest and dishonest servers, and connections that break.
"""

import gzip
import io
import socket
import tarfile
from pathlib import Path
from random import Random

import pytest
from PIL import Image

from tests.servers import http_server
from wdsflow.scan.evidence import ScanOptions
from wdsflow.scan.scan import scan_shard
from wdsflow.shards.shard_identity import input_identity
from wdsflow.shards.source import retries as faults
from wdsflow.shards.source.base import SourceError, single_shard
from wdsflow.shards.source.opening import open_source
from wdsflow.shards.tar.walk import Walk

pytest.importorskip("aiohttp")


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    monkeypatch.setattr(faults, "WAITS", (0.0, 0.0, 0.0))


def tar(sizes):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for number, size in enumerate(sizes):
            info = tarfile.TarInfo(f"{number // 2:04d}.{('jpg', 'txt')[number % 2]}")
            info.size = size
            archive.addfile(info, io.BytesIO(Random(number).randbytes(size)))
    return stream.getvalue()


SMALL = tar([40_000, 30] * 60)
LARGE = tar([1_500_000, 30] * 12)


def large_images():
    """Return a tar of valid images of 1.5 MB: what is none would be read as a whole."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for number in range(12):
            image = io.BytesIO()
            Image.frombytes("RGB", (700, 700), Random(number).randbytes(3 * 700 * 700)).save(
                image, "png", compress_level=0
            )
            for name, data in (
                (f"{number:04d}.png", image.getvalue()),
                (f"{number:04d}.txt", b"a caption"),
            ):
                info = tarfile.TarInfo(name)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
    return stream.getvalue()


def contents(source):
    walk = Walk(source, contents=True)
    read = [(row[0], walk.read(row)) for batch in walk for row in batch.rows]
    return read, walk.stop.kind


def expected(data):
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return [(member.name, archive.extractfile(member).read()) for member in archive]


@pytest.mark.sample(3)
@pytest.mark.parametrize("data", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("ranges", [True, False])
@pytest.mark.parametrize("packed", [False, True])
def test_every_byte_comes_as_it_is_and_once(data, ranges, packed):
    stored = gzip.compress(data, 1) if packed else data
    with http_server({"a.tar": stored}, ranges=ranges) as (base, log):
        with open_source(single_shard(f"{base}/a.tar")) as source:
            assert (source.is_seekable, source.size) == (ranges and not packed, len(stored))
            assert contents(source) == (expected(data), "end")
        gets = [asked for asked in log.asked if asked.method == "GET"]
        if ranges:
            assert log.sent("a.tar") <= len(stored) + 1  # one byte tells that parts are sent
            assert len(gets) <= 12
        else:
            assert len(gets) <= 3


@pytest.mark.sample(1)
@pytest.mark.parametrize("level", ["names", "headers"])
def test_of_large_members_little_is_fetched(level):
    images = large_images()
    with http_server({"a.tar": images}) as (base, log):
        shard = scan_shard(single_shard(f"{base}/a.tar"), ScanOptions(level=level))
        assert (shard.samples, shard.stop.kind) == (12, "end")
        assert log.sent("a.tar") < len(images) / 10
        # The begin and the end of each image.
        assert len(log.asked) <= 2 * 12 + 4
        assert shard.bytes_read < len(images) / 10


def test_of_small_members_all_is_fetched_in_few_requests():
    with http_server({"a.tar": SMALL}) as (base, log):
        shard = scan_shard(single_shard(f"{base}/a.tar"), ScanOptions(level="headers"))
        assert (shard.samples, shard.stop.kind) == (60, "end")
        assert log.sent("a.tar") <= len(SMALL) + 1
        assert len(log.asked) <= 6


def test_a_connection_that_breaks_is_taken_up_where_it_broke():
    with http_server({"a.tar": LARGE}) as (base, log):
        broken = []

        def cut(asked):
            if len(broken) == 3:
                return None
            broken.append(asked)
            return 100_000 * len(broken)

        with open_source(single_shard(f"{base}/a.tar")) as source:
            log.cut = cut
            assert contents(source) == (expected(LARGE), "end")
        assert len(broken) == 3


def test_a_stream_that_breaks_in_the_middle_is_read_anew_up_to_there():
    with http_server({"a.tar": LARGE}, ranges=False) as (base, log):
        log.cut = lambda asked: 5_000_000 if len(log.asked) < 4 else None
        with open_source(single_shard(f"{base}/a.tar")) as source:
            assert contents(source) == (expected(LARGE), "end")
        assert len(log.asked) == 4


@pytest.mark.sample(2)
@pytest.mark.parametrize("level", ["names", "headers", "full"])
@pytest.mark.parametrize("ranges", [True, False])
def test_a_connection_that_breaks_again_and_again_is_told(ranges, level):
    with http_server({"a.tar": LARGE}, ranges=ranges) as (base, log):

        def cut(asked):
            start = int(asked.range[6:].partition("-")[0]) if asked.range else 0
            if not ranges:
                return 3_000_000
            return 10 if 3_000_000 < start < len(LARGE) - 1 else None

        log.cut = cut
        shard = scan_shard(single_shard(f"{base}/a.tar"), ScanOptions(level=level))
        assert shard.error == "io" or shard.stop.kind == "error"
        # Which of several names the fault has depends on when it is noticed.
        assert shard.stop.detail
        assert len(log.asked) < 24


@pytest.mark.parametrize("honest", [True, False])
def test_a_server_without_parts_is_found_out_whether_it_says_so_or_not(honest):
    with (
        http_server({"a.tar": LARGE}, ranges=False, honest=honest) as (base, _),
        open_source(single_shard(f"{base}/a.tar")) as source,
    ):
        assert not source.is_seekable
        assert contents(source)[1] == "end"


@pytest.mark.parametrize(("ranges", "more"), [(True, 5000), (False, 5000)])
def test_a_length_that_is_too_long_is_an_error_and_no_shorter_shard(ranges, more):
    with http_server({"a.tar": SMALL}, ranges=ranges, says={"a.tar": len(SMALL) + more}) as (
        base,
        _,
    ):
        shard = scan_shard(single_shard(f"{base}/a.tar"), ScanOptions(level="full"))
        assert shard.error == "io" or shard.stop.kind == "error"


def test_a_server_that_is_busy_at_first_is_asked_again(monkeypatch):
    tries = []

    def fetch():
        tries.append(1)
        if len(tries) < 3:
            raise type("Busy", (OSError,), {"status": 503})
        return b"x"

    assert faults.with_retries(fetch, "http://h/a.tar") == b"x"
    assert len(tries) == 3


def test_what_does_not_pass_is_asked_for_once():
    with http_server({}) as (base, log):
        for name, kind in (("none.tar", "missing"), ("secret.tar", "denied")):
            for asking in (open_source, input_identity):
                with pytest.raises(SourceError) as caught:
                    asking(single_shard(f"{base}/{name}"))
                assert caught.value.kind == kind
            own = [asked for asked in log.asked if asked.path == f"/{name}"]
            assert 0 < len(own) <= 4  # fsspec asks by HEAD and by GET


def test_a_server_that_does_not_answer_is_no_missing_file():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(SourceError) as caught:
        open_source(single_shard(f"http://127.0.0.1:{port}/a.tar"))
    assert caught.value.kind == "io"


def test_a_file_that_changes_at_the_server_has_another_identity():
    files = {"a.tar": SMALL}
    with http_server(files) as (base, _):
        before = input_identity(single_shard(f"{base}/a.tar"))
        assert before == input_identity(single_shard(f"{base}/a.tar"))
        files["a.tar"] = LARGE
        assert input_identity(single_shard(f"{base}/a.tar")) != before


def test_filtering_from_a_server_writes_what_filtering_the_file_writes(tmp_path: Path):
    from wdsflow import Recipe, RunOptions, filter_shards

    (tmp_path / "a.tar").write_bytes(SMALL)
    recipe, options = Recipe(where="bytes > 100"), RunOptions(jobs=0)
    with http_server({"a.tar": SMALL}) as (base, _):
        report = filter_shards(f"{base}/a.tar", tmp_path / "one", recipe, options)
    assert report.whole
    filter_shards(str(tmp_path / "a.tar"), tmp_path / "two", recipe, options)
    assert (tmp_path / "one" / "a.tar").read_bytes() == (tmp_path / "two" / "a.tar").read_bytes()
