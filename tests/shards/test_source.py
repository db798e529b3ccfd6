"""Where shards lie and how they are packed."""

import bz2
import gzip
import io
import lzma
import os
import pickle
import subprocess
import sys
import tarfile
import threading
import time
import tracemalloc
import zlib
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from random import Random

import fsspec
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from tests.depth import cases
from tests.filtering.commands import run
from tests.processes import await_end
from tests.shards.tars import MemorySource, by_tarfile, by_walk
from wdsflow import check
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import (
    NoTarError,
    SourceChangedError,
    SourceError,
    SourcePart,
    single_shard,
)
from wdsflow.shards.source.decompress import unpack_command
from wdsflow.shards.source.opening import open_source
from wdsflow.shards.tar.walk import Walk

PACKERS = {
    "gz": partial(gzip.compress, compresslevel=1),
    "bz2": bz2.compress,
    "xz": partial(lzma.compress, preset=0),
    "zst": zstandard.compress,
}
READ_BY_TARFILE = ("bz2", "gz", "xz")


def tar(sizes, *, end=True):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for number, size in enumerate(sizes):
            info = tarfile.TarInfo(f"{number:04d}.jpg")
            info.size = size
            archive.addfile(info, io.BytesIO(Random(number).randbytes(size)))
    return (
        stream.getvalue()
        if end
        else stream.getvalue()[: sum(512 + -(-size // 512) * 512 for size in sizes)]
    )


def write(path, data):
    path.write_bytes(data)
    return str(path)


def names(source, *, beyond=False):
    return [
        member.name
        for batch in Walk(source)
        if batch.is_past_stop == beyond
        for member in batch.members
    ]


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", PACKERS)
@pytest.mark.parametrize("contents", [False, True])
def test_compression_is_told_by_the_first_bytes_whatever_the_name(tmp_path, kind, contents):
    sizes = [10, 70_000, 1 << 20, 0, 512, 600 << 10]
    path = write(tmp_path / "a.tar", PACKERS[kind](tar(sizes)))
    with open_source(single_shard(path)) as source:
        assert (source.compression, source.size) == (kind, os.path.getsize(path))
        walk = Walk(source, contents=contents)
        number = 0
        for batch in walk:
            for member in batch.members:
                if contents:
                    assert walk.read(member) == Random(number).randbytes(sizes[number])
                number += 1
        assert number == len(sizes)
        assert walk.stop.kind == "end"
        assert source.bytes_read == source.size
        assert source.damage is None


@cases(6)
@given(seed=st.integers(0, 2**40), kind=st.sampled_from(READ_BY_TARFILE))
def test_compressed_tars_are_read_as_by_tarfile_also_when_damaged(tmp_path_factory, seed, kind):
    r = Random(seed)
    data, pack = (
        tar([r.choice([0, 10, 3000, 40000]) for _ in range(r.randint(1, 12))]),
        PACKERS[kind],
    )
    at = r.randint(0, len(data))
    whole = bytearray(pack(data))
    packed = whole + r.choice([b"", b"", pack(data), b"junk" * 10, b"junk" * 5000])
    if r.random() < 0.2:
        packed = bytearray(pack(data[:at]) + pack(data[at:]))
    if r.random() < 0.4:
        packed[r.randint(0, len(packed) - 1)] ^= 1 << r.randint(0, 7)
    if r.random() < 0.3:
        del packed[r.randint(0, len(packed)) :]
    path = write(tmp_path_factory.mktemp("packed") / "a.tar", bytes(packed))
    expected = by_tarfile(bytes(packed))
    for contents in (False, True):
        with open_source(single_shard(path)) as source:
            assert by_walk(source, contents=contents)[0] == expected


@pytest.mark.parametrize("kind", READ_BY_TARFILE)
def test_what_a_second_stream_holds_lies_beyond(tmp_path, kind):
    first, second = tar([100, 200], end=False), tar([100, 200, 300])[1536:]
    path = write(tmp_path / "a.tar", PACKERS[kind](first) + PACKERS[kind](second))
    expected = by_tarfile(Path(path).read_bytes())
    with open_source(single_shard(path)) as source:
        read, walk = by_walk(source)
    assert read == expected
    assert [name for name, _, _ in read.members] == ["0000.jpg", "0001.jpg"]
    assert "stream" in walk.stop.detail
    with open_source(single_shard(path)) as source:
        assert names(source, beyond=True) == ["0002.jpg"]


def test_the_extra_field_of_bgzip_is_named(tmp_path):
    packed = gzip.compress(tar([100]))
    path = write(
        tmp_path / "a.tar.gz", packed[:3] + b"\4" + packed[4:10] + b"\6\0BC\2\0\0\0" + packed[10:]
    )
    assert by_tarfile(Path(path).read_bytes()).end == "unreadable"
    with open_source(single_shard(path)) as source:
        read, walk = by_walk(source)
    assert read.end == "unreadable"
    assert "bgzip" in walk.stop.detail
    command = walk.stop.detail.partition("; to unpack it: ")[2]
    subprocess.run(command, shell=True, check=True)
    assert (tmp_path / "a.tar").read_bytes() == tar([100])
    assert unpack_command(path, "gz").endswith("a-2.tar")


def test_a_damaged_gzip_shard_that_is_not_indexed_is_unpacked_by_the_printed_command(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    packed = bytearray(gzip.compress(tar([100])))
    packed[-6] ^= 1  # of the checksum
    Path("my set.tar.gz").write_bytes(packed)
    write(tmp_path / "b.tar", tar([100]))
    done = run("index", "my set.tar.gz", "b.tar", "-o", "out")
    assert "wdsflow repair" not in done.out
    assert "wdsflow repair" not in run("validate", "my set.tar.gz").out
    command = done.out.partition("or unpack it unchecked: ")[2].splitlines()[0]
    subprocess.run(command, shell=True, check=False, stderr=subprocess.DEVNULL)
    assert Path("my set.tar").read_bytes() == tar([100])


def test_validate_prints_the_command_that_unpacks_what_bgzip_wrote(tmp_path):
    packed = gzip.compress(tar([100]))
    path = write(
        tmp_path / "a.tar.gz", packed[:3] + b"\4" + packed[4:10] + b"\6\0BC\2\0\0\0" + packed[10:]
    )
    found = {
        finding.code: finding
        for finding in check([path, write(tmp_path / "b.tar", tar([100]))]).findings
    }
    assert found["W005"].repair.command == f"gzip -dc {path} > {tmp_path / 'a.tar'}"
    assert found["W004"].repair is None


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", PACKERS)
def test_a_damaged_stream_ends_with_a_reason(tmp_path, kind):
    packed = bytearray(PACKERS[kind](tar([50_000] * 60)))
    packed[len(packed) // 2 :] = Random(1).randbytes(len(packed) // 2)
    with open_source(single_shard(write(tmp_path / "a.tar", bytes(packed)))) as source:
        assert len(names(source)) >= 5
        assert "damaged" in source.damage
        assert source.raises_at_end


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", READ_BY_TARFILE)
def test_a_cut_stream_ends_with_a_reason(tmp_path, kind):
    packed = PACKERS[kind](tar([50_000] * 60))
    packed = packed[: len(packed) // 2]
    with open_source(single_shard(write(tmp_path / "a.tar", packed))) as source:
        read, walk = by_walk(source)
        assert read == by_tarfile(packed)
        assert walk.stop.detail == source.damage == f"the {kind} stream is cut"


def bomb(kind, size=400 << 20):
    """Return zeros by the hundred megabytes, packed, without ever having them in memory."""
    if kind == "gz":
        maker = zlib.compressobj(9, zlib.DEFLATED, 31)
    else:
        maker = (
            lzma.LZMACompressor(preset=0)
            if kind == "xz"
            else zstandard.ZstdCompressor().compressobj()
        )
    parts = [maker.compress(tar([10], end=False))]
    parts += [maker.compress(bytes(1 << 20)) for _ in range(size >> 20)]
    return b"".join([*parts, maker.flush()])


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", ["gz", "zst", "xz"])
@pytest.mark.parametrize("contents", [False, True])
def test_a_bomb_is_unpacked_within_a_few_megabytes(tmp_path, kind, contents):
    path = write(tmp_path / "a.tar", bomb(kind, size=(60 if kind == "xz" else 100) << 20))
    tracemalloc.start()
    try:
        with open_source(single_shard(path)) as source:
            assert [batch.rows[0][0] for batch in Walk(source, contents=contents)] == ["0000.jpg"]
        assert tracemalloc.get_traced_memory()[1] < 30 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.deep
def test_a_member_larger_than_memory_should_be_passes_through_a_stream(tmp_path):
    data = tar([100, 40 << 20, 100])
    with open_source(single_shard(write(tmp_path / "a.tar.gz", gzip.compress(data, 1)))) as source:
        walk = Walk(source, contents=True)
        sizes = []
        for batch in walk:
            for member in batch.members:
                start = walk.read(member, 0, 1000)
                assert start == data[member.data : member.data + min(1000, member.size)]
                sizes.append(member.size)
        assert sizes == [100, 40 << 20, 100]


def test_zstd_without_its_library_says_what_to_install(tmp_path, monkeypatch):
    path = write(tmp_path / "a.tar", zstandard.compress(tar([10])))
    monkeypatch.setattr("wdsflow.shards.source.streams.find_spec", lambda name: None)
    with pytest.raises(SourceError, match="pip install zstandard") as caught:
        open_source(single_shard(path))
    assert caught.value.kind == "needs-library"


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda path: None, "missing"),
        (lambda path: path.mkdir(), "io"),
        (os.mkfifo, "refused"),
    ],
)
def test_what_cannot_be_opened_is_told_by_kind(tmp_path, make, kind):
    make(tmp_path / "a.tar")
    with pytest.raises(SourceError) as caught:
        open_source(single_shard(str(tmp_path / "a.tar")))
    assert caught.value.kind == kind


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_denied(tmp_path):
    path = write(tmp_path / "a.tar", tar([10]))
    os.chmod(path, 0)
    with pytest.raises(SourceError) as caught:
        open_source(single_shard(path))
    assert caught.value.kind == "denied"


@pytest.mark.skipif(
    not os.path.exists("/proc/self/mem"), reason="a file that cannot be read from its start"
)
def test_a_disk_that_fails_at_the_first_byte_is_an_error_of_reading():
    with pytest.raises(SourceError) as caught:
        open_source(single_shard("/proc/self/mem"))
    assert caught.value.kind == "io"


def test_a_nul_in_the_name_is_an_error_of_the_right_kind():
    with pytest.raises(SourceError) as caught:
        open_source(single_shard("a\0.tar"))
    assert caught.value.kind == "io"


def test_file_urls_and_plain_paths_lead_to_the_same_file(tmp_path, monkeypatch):
    path = write(tmp_path / "a.tar", tar([10]))
    monkeypatch.setenv("HOME", str(tmp_path))
    for url in (path, f"file:{path}", f"file://{path}", "~/a.tar"):
        with open_source(single_shard(url)) as source:
            assert names(source) == ["0000.jpg"]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_other_file_systems_are_read_through_fsspec(pack):
    data = tar([100, 70_000, 5 << 20, 20])
    with fsspec.open("memory://bucket/a.tar", "wb") as file:
        file.write(pack(data))
    with open_source(single_shard("memory://bucket/a.tar")) as source:
        walk = Walk(source, contents=True)
        for batch in walk:
            for member in batch.members:
                assert walk.read(member) == data[member.data : member.data + member.size]
        assert walk.stop.kind == "end"
        assert source.size == len(pack(data))


@pytest.mark.parametrize(
    ("url", "kind"), [("memory://bucket/none.tar", "missing"), ("nosuch://bucket/a.tar", "refused")]
)
def test_remote_trouble_is_told_by_kind(url, kind):
    with pytest.raises(SourceError) as caught:
        open_source(single_shard(url))
    assert caught.value.kind == kind


def test_a_file_system_whose_library_is_missing_says_so(monkeypatch):
    known = {"class": "no_such_library.FileSystem", "err": "install no_such_library"}
    monkeypatch.setitem(sys.modules["fsspec.registry"].known_implementations, "odd", known)
    with pytest.raises(SourceError, match="no_such_library") as caught:
        open_source(single_shard("odd://bucket/a.tar"))
    assert caught.value.kind == "needs-library"


def test_commands_run_only_when_that_is_allowed(tmp_path):
    path = write(tmp_path / "a.tar", tar([10, 20]))
    marker = tmp_path / "ran"
    with pytest.raises(SourceError) as caught:
        open_source(single_shard(f"pipe:touch {marker}; cat {path}"))
    assert caught.value.kind == "refused"
    assert not marker.exists()
    with open_source(single_shard(f"pipe:touch {marker}; cat {path}"), allow_pipe=True) as source:
        assert names(source) == ["0000.jpg", "0001.jpg"]
    assert marker.exists()
    with open_source(single_shard(f"pipe:gzip -c {path}"), allow_pipe=True) as source:
        assert names(source) == ["0000.jpg", "0001.jpg"]


def test_a_command_that_fails_is_damage(tmp_path):
    path = write(tmp_path / "a.tar", tar([10, 20], end=False))
    with open_source(single_shard(f"pipe:cat {path}; exit 3"), allow_pipe=True) as source:
        read, walk = by_walk(source)
    assert len(read.members) == 2
    assert walk.stop == ("error", 2048, "the command ended with status 3")


def test_a_command_is_stopped_when_nobody_reads_on():
    with open_source(single_shard("pipe:yes"), allow_pipe=True) as source:
        assert by_walk(source)[0].end == "unreadable"


class Handler(BaseHTTPRequestHandler):
    """A server that cannot seek and knows two files."""

    data = tar([100, 30_000])

    def do_GET(self):
        status = {"/a.tar": 200, "/secret.tar": 403}.get(self.path, 404)
        self.send_response(status)
        self.end_headers()
        if status == 200:
            self.wfile.write(self.data)

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, *_):
        pass


def test_a_server_that_does_not_seek_is_read_forward():
    pytest.importorskip("aiohttp")
    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        base = f"http://127.0.0.1:{server.server_port}"
        with open_source(single_shard(f"{base}/a.tar")) as source:
            assert names(source) == ["0000.jpg", "0001.jpg"]
        for path, kind in (("none.tar", "missing"), ("secret.tar", "denied")):
            with pytest.raises(SourceError) as caught:
                open_source(single_shard(f"{base}/{path}"))
            assert caught.value.kind == kind
    finally:
        server.shutdown()
        server.server_close()


_WAITS = """
import sys, threading, time
from pathlib import Path
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.opening import open_source
number, waiting = map(Path, sys.argv[1:])
url = Shard.command(f"pipe:echo $$ > {number}; cat {waiting}")
threading.Thread(target=open_source, args=(url,), kwargs={"allow_pipe": True}, daemon=True).start()
while not number.exists() or not number.read_text().endswith("\\n"):
    time.sleep(0.02)
"""


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no fifos here")
def test_a_command_that_waits_for_ever_ends_with_the_process_that_started_it(
    tmp_path: Path,
) -> None:
    waiting, number = tmp_path / "waiting", tmp_path / "number"
    os.mkfifo(waiting)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run(
        [sys.executable, "-c", _WAITS, str(number), str(waiting)], env=environment, check=True
    )
    await_end(int(number.read_text()))


def test_a_part_of_a_source_has_the_bytes_before_it_and_ends_where_the_source_does():
    data = bytes(range(256)) * 2
    for start, before in ((0, b""), (300, b""), (300, b"abc"), (2, b"abcdef"), (512, b"x")):
        whole, expected = MemorySource(data), before + data[start:]
        part = SourcePart(whole, start, before)
        assert (part.length, part.url, part.is_seekable) == (
            len(expected),
            whole.url,
            whole.is_seekable,
        )
        for offset in (0, 1, 2, 3, 5, 100, len(expected) - 1, len(expected)):
            for size in (0, 1, 3, 4, 9, 1000):
                assert part.read_at(offset, size) == expected[offset : offset + size], (
                    start,
                    before,
                    offset,
                    size,
                )
        whole.length = None
        assert SourcePart(whole, start, before).length is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_no_process_is_forked_while_a_command_is_started(monkeypatch):
    """It would hold the pipes of the command: their end would not be seen."""
    starts, started = threading.Event(), threading.Event()
    start = subprocess.Popen.__init__

    def slowly(*given, **named):
        starts.set()
        time.sleep(0.3)
        start(*given, **named)
        started.set()

    def read():
        with open_source(Shard.command("pipe:true"), allow_pipe=True) as source:
            source.read_at(0, 1)

    monkeypatch.setattr(subprocess.Popen, "__init__", slowly)
    thread = threading.Thread(target=read)
    thread.start()
    starts.wait()
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    was_started = started.is_set()
    thread.join()
    assert was_started


@pytest.mark.parametrize(
    "error",
    [
        SourceError("denied", "permission denied", "chmod a+r 0.tar"),
        NoTarError("not a tar: looks like text"),
        SourceChangedError("its size"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_of_a_source_is_the_same_in_another_process(error: SourceError) -> None:
    copy = pickle.loads(pickle.dumps(error))

    assert type(copy) is type(error)
    assert (str(copy), vars(copy)) == (str(error), vars(error))
