"""Makes the shards that are measured, once, under .bench/: written by webdataset's own TarWriter, as users have them."""

import json
import os
import random
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from .photos import LARGE, MEDIUM, SMALL, damaged, photographs, with_comment

SETS = {  # shards, samples a shard
    "small": (8, 5000),
    "large": (8, 500),
    "damaged": (1, 480),
    "damaged-run": (1, 480),
    "2mp": (1, 60),
    "12mp": (1, 24),
}
FIELDS = 3  # members of a sample
# Size, and how many different ones; the rest have other bytes, but show the same.
_PICTURES = {
    "small": (SMALL, 40),
    "large": (LARGE, 4),
    "damaged": (SMALL, 40),
    "damaged-run": (SMALL, 40),
    "2mp": (MEDIUM, 12),
    "12mp": (LARGE, 8),
}
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
            os.fsync(file.fileno())  # else the cold measurements would find the pages dirty, and in memory
    work.rename(folder)


def _samples(name: str) -> Iterator[dict[str, bytes]]:
    size, different = _PICTURES[name]
    pictures = photographs(size, different, seed=len(name))
    rng = random.Random(name)
    number = 0
    while True:
        picture = pictures[number % different]
        if name.startswith("damaged"):
            jpeg = damaged(picture, rng, together=name == "damaged-run")
        else:
            jpeg = with_comment(picture, b"number %d" % number)
        caption = " ".join(rng.choices(_WORDS, k=rng.randrange(6, 16)))
        facts = {"caption": caption, "url": f"https://example.org/{number}.jpg", "width": size[0], "height": size[1]}
        facts |= {"key": f"{number:09d}", "status": "success", "sha256": rng.randbytes(32).hex()}
        yield {"jpg": jpeg, "txt": caption.encode(), "json": json.dumps(facts).encode()}
        number += 1


if __name__ == "__main__":
    make(Path(sys.argv[1]), sys.argv[2])
