"""What is read of a local shard decides how quickly it is judged, not how."""

import io
import json
import random
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from tests.pictures import encoded, photo
from tests.shards.tars import hurt
from wdsflow.scan.evidence import ScanOptions, ShardEvidence
from wdsflow.scan.scan import scan_shard
from wdsflow.shards.source.base import Source, single_shard
from wdsflow.shards.source.opening import open_source
from wdsflow.shards.tar import windows
from wdsflow.shards.tar.members import PieceReader
from wdsflow.shards.tar.walk import Walk

HEADERS = ScanOptions("headers")


class Whole(Source):
    """A file that is read as one of another machine: all bytes, in windows."""

    def __init__(self, source: Source) -> None:
        self.url, self.size, self.length, self._source = (
            source.url,
            source.size,
            source.length,
            source,
        )

    def read_at(self, offset: int, size: int) -> bytes:
        return self._source.read_at(offset, size)


def _contents(draw: random.Random, images: list[bytes], field: str) -> bytes:
    if field in ("jpg", "png"):
        image = draw.choice(images) + bytes(draw.choice((0, 0, 1, 600, 9000)))
        return image if draw.random() < 0.9 else image[: draw.randrange(len(image))]
    text = " ".join(draw.choices(("a", "dog", "é", ""), k=draw.choice((0, 3, 9, 400))))
    return json.dumps({"caption": text, "n": 1}).encode() if field == "json" else text.encode()


def _write(path: Path, draw: random.Random, images: list[bytes]) -> bytes:
    form = draw.choice((tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT))
    fields = draw.choice(
        (("jpg", "json", "txt"), ("jpg", "txt"), ("png", "seg.png", "cls"), ("json",))
    )
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=form) as tar:
        for number in range(draw.randrange(1, 60)):
            for field in fields:
                info = tarfile.TarInfo(f"{number:05d}.{field}")
                info.mtime = 1.79e9 + draw.random()
                data = _contents(draw, images, field)
                info.size = len(data)
                if draw.random() < 0.97:
                    tar.addfile(info, io.BytesIO(data))
    data = stream.getvalue()
    for _ in range(draw.choice((0, 0, 1, 2))):
        data = hurt(draw, data)
    path.write_bytes(data)
    return data


def _same(evidence: ShardEvidence) -> ShardEvidence:
    return replace(evidence, bytes_read=0)


@pytest.mark.parametrize(
    "seed", [*range(25), *(pytest.param(n, marks=pytest.mark.deep) for n in range(25, 600))]
)
def test_headers_judges_what_it_reads_of_a_file_as_if_it_read_all(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw, path = random.Random(seed), tmp_path / "a.tar"
    images = [
        encoded(photo(side, side, seed=side), kind)
        for side in (9, 40, 200)
        for kind in ("JPEG", "PNG")
    ]
    _write(path, draw, images)
    if seed % 2:  # many windows
        monkeypatch.setattr(windows, "_BATCH", 1 << 16)
        monkeypatch.setattr(windows, "_SMALL", 0)
    assert _same(scan_shard(single_shard(str(path)), HEADERS)) == _same(
        scan_shard(single_shard(str(path)), HEADERS, view=Whole)
    )


@pytest.mark.parametrize("size", [0, 1, 100, 511, 512, 600, 1024, 1536])
def test_headers_judges_short_files_as_if_it_read_all(tmp_path: Path, size: int) -> None:
    path, stream = tmp_path / "a.tar", io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name in ("0.txt", "0.json"):
            info = tarfile.TarInfo(name)
            info.size = 3
            tar.addfile(info, io.BytesIO(b"abc"))
    for data in (
        stream.getvalue()[:size],
        b"<html>".ljust(size),
        bytes(512) + stream.getvalue()[:size],
    ):
        path.write_bytes(data)
        assert _same(scan_shard(single_shard(str(path)), HEADERS)) == _same(
            scan_shard(single_shard(str(path)), HEADERS, view=Whole)
        )


def test_what_headers_looks_at_in_large_members_is_read_with_their_headers(tmp_path: Path) -> None:
    path, draw = tmp_path / "a.tar", random.Random(1)
    with tarfile.open(path, "w") as tar:
        for number in range(200):
            for field, size in (
                ("jpg", draw.randrange(30_000, 60_000)),
                ("json", 300),
                ("txt", 80),
            ):
                info = tarfile.TarInfo(f"{number:05d}.{field}")
                info.mtime, info.size = 1.79e9 + draw.random(), size
                tar.addfile(info, io.BytesIO(draw.randbytes(size)))
    data = path.read_bytes()
    read, there = PieceReader(), 0
    with open_source(single_shard(str(path))) as source:
        for batch in Walk(source, keep=True, ends=True):
            read.take(batch.pieces)
            for _, size, start, _, _ in batch.rows:
                for first, many in ((start, min(size, 4096)), (start + size - 32, 32)):
                    found = read.peek(first, many)
                    assert data.startswith(found, first)
                    there += len(found) == many
        assert there > 0.95 * 2 * 600
        assert source.bytes_read < 0.5 * len(data)
