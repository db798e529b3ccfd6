"""Writes the world into WebDataset shards: pictures as jpg, captions as txt."""

import random
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from wdsflow.pieces.tar_members import member
from wdsflow.pieces.writer import write_pieces
from wdsflow.shards.source.base import Source

from .captions import caption
from .world import Scene, choose, jpeg


def write_training(folder: Path, *, shards: int, samples: int, seed: int) -> None:
    """Draw scenes that are not held out, as many for each shard."""
    folder.mkdir()
    for shard in range(shards):
        rng = random.Random(f"train {seed} {shard}")
        scenes = (choose(rng, held_out=False) for _ in range(samples // shards))
        _write(folder / f"{shard:03d}.tar", scenes, rng)


def write_held_out(path: Path, *, hundreds: int, seed: int) -> None:
    """Draw hundreds of held-out scenes; no two of the same hundred mean the same."""
    rng = random.Random(f"held out {seed}")
    _write(path, (scene for _ in range(hundreds) for scene in _hundred(rng)), rng)


def read(path: Path) -> list[tuple[bytes, str]]:
    """Return the (jpeg, caption) of each sample of a shard."""
    with tarfile.open(path) as tar:
        contents = {info.name: file.read() for info in tar if (file := tar.extractfile(info))}
    keys = [name.removesuffix(".jpg") for name in contents if name.endswith(".jpg")]
    return [(contents[f"{key}.jpg"], contents[f"{key}.txt"].decode()) for key in keys]


def _hundred(rng: random.Random) -> list[Scene]:
    chosen: dict[Scene, None] = {}
    while len(chosen) < 100:
        chosen[choose(rng, held_out=True)] = None
    return list(chosen)


def _write(path: Path, scenes: Iterator[Scene], rng: random.Random) -> None:
    write_members(path, _members(scenes, rng))


def write_members(path: Path, members: Iterable[tuple[str, bytes]]) -> None:
    """Write a tar of members by name and contents."""
    write_pieces(path, Source(), (member(name, data) for name, data in members))


def _members(scenes: Iterator[Scene], rng: random.Random) -> Iterator[tuple[str, bytes]]:
    for number, scene in enumerate(scenes):
        yield f"{number:05d}.jpg", jpeg(scene, rng)
        yield f"{number:05d}.txt", caption(scene, rng).encode()
