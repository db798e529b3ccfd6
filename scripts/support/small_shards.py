"""Shards of small pictures with captions, by the standard library and Pillow alone."""

import io
import random
import tarfile
from pathlib import Path

from .bench.photos import SMALL, photographs, with_comment

_WORDS = "a an old red green small stone wooden house river bridge street market boat tree under near in the sun rain".split()


def write_small_shards(folder: Path, shards: int, samples: int, different: int = 40) -> list[str]:
    """Write shards unless they exist, and return their paths.

    Pictures have 20 KB, captions 6 to 15 words.
    """
    paths = [folder / f"{shards}x{samples}-{number:04d}.tar" for number in range(shards)]
    if not all(path.is_file() for path in paths):
        folder.mkdir(parents=True, exist_ok=True)
        pictures, rng = photographs(SMALL, min(different, samples), seed=5), random.Random(5)
        for shard, path in enumerate(paths):
            part = path.with_suffix(".part")
            with tarfile.open(part, "w") as tar:
                for number in range(samples):
                    caption = random_caption(rng)
                    picture = with_comment(
                        pictures[number % len(pictures)], b"%d %d" % (shard, number)
                    )
                    _add(tar, f"{shard:04d}{number:05d}.jpg", picture)
                    _add(tar, f"{shard:04d}{number:05d}.txt", caption.encode())
            part.replace(path)
    return [str(path) for path in paths]


def random_caption(rng: random.Random) -> str:
    """Return 6 to 15 words."""
    return " ".join(rng.choices(_WORDS, k=rng.randrange(6, 16)))


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))
