"""Writes one small shard set for each fault of the demonstration."""

import io
import json
import struct
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from .scenes import Scene

Member = tuple[str, bytes]
SHARDS = 4


def members(scenes: Iterable[tuple[int, Scene]]) -> Iterator[Member]:
    """Yield what a healthy shard holds: for each sample a picture and a caption side by side."""
    for number, scene in scenes:
        yield f"{number:06d}.jpg", scene.jpeg
        yield f"{number:06d}.txt", scene.caption.encode()


def sound(folder: Path, scenes: list[Scene]) -> None:
    """Write a set without a fault."""
    _write(folder, scenes, members)


def captions_in_json(folder: Path, scenes: list[Scene]) -> None:
    """Put the captions into json, as many downloaders do."""

    def pairs(part: Iterable[tuple[int, Scene]]) -> Iterator[Member]:
        for number, scene in part:
            yield f"{number:06d}.jpg", scene.jpeg
            yield f"{number:06d}.json", json.dumps({"description": scene.caption, "source": "drawn"}).encode()

    _write(folder, scenes, pairs)


def truncated(folder: Path, scenes: list[Scene]) -> None:
    """Cut one shard in the middle of a member's header, as a broken download leaves it: no reader says a word."""
    sound(folder, scenes)
    path = folder / "002.tar"
    with tarfile.open(path) as tar:
        inside = tar.getmembers()
        cut = inside[len(inside) // 2].offset + 100
    with path.open("r+b") as file:
        file.truncate(cut)


def interleaved(folder: Path, scenes: list[Scene]) -> None:
    """Write all pictures of a shard first and its captions after them, as `tar --sort=...` by extension does."""
    _write(folder, scenes, lambda part: sorted(members(part), key=lambda member: member[0].rsplit(".", 1)[1]))


def dotted_names(folder: Path, scenes: list[Scene]) -> None:
    """Name the files `photo.000123.jpg`: for WebDataset the sample's key ends at the first dot."""
    _write(folder, scenes, lambda part: ((f"photo.{name}", data) for name, data in members(part)))


def macos_twins(folder: Path, scenes: list[Scene]) -> None:
    """Add the `._` twins that tar writes on a Mac; inside a folder they tear each sample in two."""

    def twins(part: Iterable[tuple[int, Scene]]) -> Iterator[Member]:
        for name, data in members(part):
            yield f"photos/._{name}", b"\x00\x05\x16\x07\x00\x02\x00\x00Mac OS X        "
            yield f"photos/{name}", data

    _write(folder, scenes, twins)


def huge_png(folder: Path, scenes: list[Scene]) -> None:
    """Replace one picture by a PNG of 200 megapixels: a few kilobytes in the tar, over 800 MB once decoded."""

    def with_bomb(part: Iterable[tuple[int, Scene]]) -> Iterator[Member]:
        for name, data in members(part):
            yield ("000100.png", white_png(20_000, 10_000)) if name == "000100.jpg" else (name, data)

    _write(folder, scenes, with_bomb)


def latin1_caption(folder: Path, scenes: list[Scene]) -> None:
    """Write one caption in Latin-1; the loader drops the sample with a warning that names neither key nor shard."""

    def latin1(part: Iterable[tuple[int, Scene]]) -> Iterator[Member]:
        for name, data in members(part):
            yield (name, "un café près de la forêt".encode("latin-1")) if name == "000042.txt" else (name, data)

    _write(folder, scenes, latin1)


def labels_by_other_name(folder: Path, scenes: list[Scene]) -> None:
    """Write class numbers in place of captions, as `label`; timm wants them as `cls`."""

    def labelled(part: Iterable[tuple[int, Scene]]) -> Iterator[Member]:
        for name, data in members(part):
            stem, _, suffix = name.rpartition(".")
            if suffix in ("jpg", "txt"):
                yield (name, data) if suffix == "jpg" else (f"{stem}.label", str(len(data) % 10).encode())

    _write(folder, scenes, labelled)


def white_png(width: int, height: int) -> bytes:
    """Return an all-white 1-bit PNG, compressed row by row: the picture itself is never in memory."""
    squeeze = zlib.compressobj(9)
    row = b"\0" + b"\xff" * ((width + 7) // 8)
    data = b"".join(squeeze.compress(row) for _ in range(height)) + squeeze.flush()
    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", data), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, content) for kind, content in chunks)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def _write(
    folder: Path, scenes: list[Scene], layout: Callable[[Iterable[tuple[int, Scene]]], Iterable[Member]]
) -> None:
    folder.mkdir(parents=True)
    numbered = list(enumerate(scenes))
    size = -(-len(numbered) // SHARDS)
    for shard in range(SHARDS):
        with tarfile.open(folder / f"{shard:03d}.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
            for name, data in layout(numbered[shard * size : (shard + 1) * size]):
                info = tarfile.TarInfo(name)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
