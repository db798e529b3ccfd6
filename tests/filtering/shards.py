"""Small shards for the tests of filtering."""

import hashlib
import io
import json
from functools import cache
from pathlib import Path

from PIL import Image

from tests.shards.archives import Entry, write_tar


@cache
def picture(width: int, height: int, seed: int = 0, kind: str = "JPEG") -> bytes:
    buffer = io.BytesIO()
    shade = Image.linear_gradient("L").rotate(seed * 7).resize((width, height))
    Image.merge("RGB", (shade, shade.transpose(0), shade)).save(buffer, kind)
    return buffer.getvalue()


SIDES = (64, 150, 220, 300)


def entries(shard: int, samples: int) -> list[Entry]:
    found: list[Entry] = []
    for sample in range(samples):
        key = f"{shard:03d}{sample:04d}"
        side = SIDES[sample % len(SIDES)]
        words = " ".join(["word"] * (sample % 5 + 1))
        found += [
            (f"{key}.jpg", picture(side, side + 10, sample)),
            (f"{key}.txt", words.encode()),
            (f"{key}.json", json.dumps({"n": sample}).encode()),
        ]
    return found


def write_shards(folder: Path, shards: int = 3, samples: int = 20) -> str:
    """Write shards of pictures of four sizes, and return the folder.

    Captions have one to five words.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for shard in range(shards):
        write_tar(folder / f"{shard:05d}.tar", entries(shard, samples))
    return str(folder)


def digests(folder: Path) -> dict[str, str]:
    """Hash every file below a folder, except for files that differ between runs.

    Locks and states of runs name processes, and files of costs hold times. Keys are paths relative
    to the folder.
    """
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith(("lock", "state-", "costs"))
    }
