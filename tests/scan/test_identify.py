"""Hashes of shards: of all bytes, once, and of a shard that stays as it is."""

from hashlib import sha256
from random import Random

import pytest

from wdsflow.scan.evidence import ScanOptions
from wdsflow.scan.scan import Identifying, identify_shard
from wdsflow.shards.source.base import Digest, SourceError


def test_a_file_that_changes_while_it_is_read_has_no_identity(tmp_path):
    path = tmp_path / "0.tar"
    path.write_bytes(bytes(10_240))
    under_way = Identifying(str(path))
    with path.open("ab") as file:
        file.write(b"x")
    with pytest.raises(SourceError, match="it changed while it was read"):
        under_way.done()


@pytest.mark.parametrize("kind", ["missing", "folder", "pipe"])
def test_what_cannot_be_read_is_evidence_and_not_an_exception(tmp_path, kind):
    url = {"missing": f"{tmp_path}/0.tar", "folder": str(tmp_path), "pipe": "pipe:cat x"}[kind]
    found = identify_shard(url, ScanOptions())
    assert found.identity is None
    assert found.error_detail


@pytest.mark.parametrize("seed", range(20))
def test_parts_in_any_order_are_hashed_once_and_whole(seed):
    rng = Random(seed)
    data = rng.randbytes(rng.randrange(1, 5000))
    start = data[: rng.randrange(100)]
    asked = 0

    def part(first, stop):
        nonlocal asked
        asked += stop - first
        return data[first:stop]

    digest = Digest()
    fetch = digest.of_parts(part, len(data), start)
    for _ in range(rng.randrange(6)):
        first = rng.randrange(len(data))
        stop = rng.randrange(first, len(data)) + 1
        assert fetch(first, stop) == data[first:stop]
    forward = Digest()
    assert digest.finish() == sha256(data).digest()
    assert digest.size == len(data)
    asked, at = 0, 0
    onwards = forward.of_parts(part, len(data))
    while at < len(data):
        at += rng.randrange(1, 700)
        onwards(min(at, len(data)), min(at + 100, len(data)))
        at += 100
    assert forward.finish() == sha256(data).digest()
    assert asked == len(data)  # going forward, no byte is asked for twice


def test_a_stream_is_hashed_to_its_end_by_whoever_reads_it():
    data = Random(0).randbytes(30_000)
    left = [data]

    def read(size):
        piece, left[0] = left[0][:size], left[0][size:]
        return piece

    digest = Digest()
    hashed = digest.of_stream(read)
    assert hashed(512) == data[:512]
    assert digest.finish() == sha256(data).digest()
