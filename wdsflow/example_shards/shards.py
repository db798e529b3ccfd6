"""Scenes as shards."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from wdsflow.pieces.tar_members import member
from wdsflow.pieces.writer import write_pieces
from wdsflow.shards.source.base import Source

from .scenes import Scene

SHARDS = 4


def write_examples(folder: Path, scenes: Sequence[Scene]) -> None:
    """Write scenes as ``KEY.jpg`` and ``KEY.json`` into a new folder.

    Captions are the json's ``description``.

    Raises FileExistsError if the folder is there, and OSError.
    """
    folder.mkdir(parents=True)
    # Rounded up: the last shard has the remainder.
    scenes_of_shard = -(-len(scenes) // SHARDS)
    for shard in range(SHARDS):
        first = shard * scenes_of_shard
        shard_scenes = scenes[first : first + scenes_of_shard]
        write_pieces(folder / f"{shard:03d}.tar", Source(), _members(shard_scenes, first))


def _members(scenes: Sequence[Scene], first: int) -> Iterator[bytes]:
    """Yield the members of a shard; keys are numbers from ``first`` on."""
    for number, scene in enumerate(scenes, start=first):
        key = f"{number:06d}"
        metadata = {"description": scene.caption, "source": "drawn"}
        yield member(f"{key}.jpg", scene.jpeg)
        yield member(f"{key}.json", json.dumps(metadata).encode())
