"""Makes the shards for the benchmarks, once, in .bench/.

They are written by webdataset's own TarWriter, as users have them.
"""

import json
import os
import random
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from .photos import LARGE, MEDIUM, SMALL, damaged, photographs, with_comment

# Shards, samples a shard.
SETS = {
    "small": (8, 5000),
    "many": (32, 5000),
    "large": (8, 500),
    "damaged": (1, 480),
    "damaged-run": (1, 480),
    "2mp": (8, 60),
    "12mp": (8, 24),
    "photos": (5, 43),
    "pairs": (8, 625),
    "pairs-few": (8, 80),
}
# Members of a sample.
FIELDS = 3
# Size, and how many different ones; the rest have other bytes, but show the same.
_PICTURES = {
    "small": (SMALL, 40),
    "many": (SMALL, 40),
    "large": (LARGE, 4),
    "damaged": (SMALL, 40),
    "damaged-run": (SMALL, 40),
    "2mp": (MEDIUM, 12),
    "12mp": (LARGE, 8),
    "pairs": (SMALL, 40),
    "pairs-few": (SMALL, 40),
}
# 2 to 30 megapixels; a fifth of them progressive, as photographs from the web are.
_PHOTOS = [
    (1632, 1224),
    (2048, 1536),
    (1944, 2592),
    (3264, 2448),
    (3648, 2736),
    (4000, 3000),
    (3456, 4608),
    (5184, 3456),
    (5472, 3648),
    (6000, 4000),
    (6720, 4480),
]
_PROGRESSIVE = {(1944, 2592), (5184, 3456)}
_WORDS = [
    "a",
    "an",
    "old",
    "red",
    "green",
    "small",
    "stone",
    "wooden",
    "house",
    "river",
    "bridge",
    "street",
    "market",
    "boat",
    "tree",
    "under",
    "near",
    "in",
    "the",
    "sun",
    "rain",
]


class Picture(NamedTuple):
    """A JPEG, and its width and height."""

    jpeg: bytes
    size: tuple[int, int]


def paths(root: Path, name: str) -> list[str]:
    """Return the paths of a set's shards."""
    return [str(root / name / f"{shard:04d}.tar") for shard in range(SETS[name][0])]


def make(root: Path, name: str) -> None:
    """Write a set. Runs in a process of its own that sees webdataset 1.x."""
    import webdataset

    shards, count = SETS[name]
    folder, work = root / name, root / f"{name}.part"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    samples = _samples(name)
    for shard in range(shards):
        with (work / f"{shard:04d}.tar").open("wb") as file:
            with webdataset.TarWriter(file, encoder=False) as tar:
                for number in range(count):
                    tar.write({"__key__": f"{shard:05d}{number:04d}", **next(samples)})
            file.flush()
            # Else the cold measurements would find the pages dirty, and in memory.
            os.fsync(file.fileno())
    shutil.rmtree(folder, ignore_errors=True)
    work.rename(folder)


def _pictures(name: str) -> list[Picture]:
    if name == "photos":
        return [
            Picture(photographs(size, 1, size[0], progressive=size in _PROGRESSIVE)[0], size)
            for size in _PHOTOS
        ]
    size, different = _PICTURES[name]
    return [Picture(jpeg, size) for jpeg in photographs(size, different, seed=len(name))]


def _samples(name: str) -> Iterator[dict[str, bytes]]:
    pictures = _pictures(name)
    rng = random.Random(name)
    number = 0
    while True:
        picture, size = pictures[number % len(pictures)]
        if name.startswith("damaged"):
            jpeg = damaged(picture, rng, together=name == "damaged-run")
        else:
            jpeg = with_comment(picture, b"number %d" % number)
        caption = " ".join(rng.choices(_WORDS, k=rng.randrange(6, 16)))
        facts = {
            "caption": caption,
            "url": f"https://example.org/{number}.jpg",
            "width": size[0],
            "height": size[1],
        }
        facts |= {"key": f"{number:09d}", "status": "success", "sha256": rng.randbytes(32).hex()}
        yield {"jpg": jpeg, "txt": caption.encode(), "json": json.dumps(facts).encode()}
        number += 1


if __name__ == "__main__":
    make(Path(sys.argv[1]), sys.argv[2])
