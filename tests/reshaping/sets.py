"""Small sets of shards, and what is in them by Python's tarfile."""

import random
from collections import Counter
from pathlib import Path

from tests.shards.archives import Entry, read_tar, write_tar
from wdsflow.shards.tar.members import split_name

Samples = list[tuple[str, dict[str, bytes]]]


def entries(keys: list[str], mark: str = "") -> list[Entry]:
    """Return a picture of some length and a caption for each key; no two are the same."""
    chance = random.Random(mark)
    found: list[Entry] = []
    for key in keys:
        picture = f"{mark} {key} ".encode("utf-8", "surrogateescape") + chance.randbytes(
            chance.randrange(10, 3000)
        )
        found += [
            (f"{key}.jpg", picture),
            (f"{key}.txt", f"caption of {mark} {key}".encode("utf-8", "surrogateescape")),
        ]
    return found


def write_set(folder: Path, counts: tuple[int, ...] = (30, 5, 17, 48)) -> str:
    """Write a shard for each count, with keys of its own as img2dataset's; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for shard, count in enumerate(counts):
        keys = [f"{shard:05d}{number:04d}" for number in range(count)]
        write_tar(folder / f"{shard:05d}.tar", entries(keys, str(shard)))
    return str(folder)


def samples_in(path: Path) -> Samples:
    """Return key and fields of the samples of a tar, grouped as webdataset does."""
    found: Samples = []
    for name, data in read_tar(path):
        key, field = split_name(name)
        assert key is not None
        assert field is not None
        if not found or found[-1][0] != key or field in found[-1][1]:
            found.append((key, {}))
        found[-1][1][field] = data
    return found


def in_folder(folder: Path | str) -> list[Samples]:
    """Return the samples of each tar below a folder, by its name."""
    return [samples_in(path) for path in sorted(Path(folder).rglob("*.tar"))]


def members(shards: list[Samples]) -> Counter[tuple[str, str, bytes]]:
    """Return how often there is a field of a key with these contents."""
    return Counter(
        (key, field, data)
        for shard in shards
        for key, fields in shard
        for field, data in fields.items()
    )


def keys_of(shards: list[Samples]) -> list[str]:
    """Return all keys in order."""
    return [key for shard in shards for key, _ in shard]
