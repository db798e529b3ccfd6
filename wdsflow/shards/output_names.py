"""What the files are called that are made of shards."""

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

_ENDING = re.compile(r"(\.tar)?(\.(gz|bz2|xz|zst|zstd))?$|\.(tgz|tbz2?|txz|tzst)$", re.IGNORECASE)


def output_names(urls: Sequence[str]) -> list[str]:
    """Return a file name for each url: its base name as a plain tar; equal ones are numbered.

    >>> output_names(["a/0.tar", "b/0.tar.gz", "https://host/1.tgz?download=true"])
    ['0.tar', '0-2.tar', '1.tar']
    """
    stems = [_stem(url, number) for number, url in enumerate(urls)]
    taken: set[str] = set()
    names: list[str] = []
    for stem in stems:
        name, count = stem, 1
        while name in taken or (count > 1 and name in stems):
            count += 1
            name = f"{stem}-{count}"
        taken.add(name)
        names.append(f"{name}.tar")
    return names


def _stem(url: str, number: int) -> str:
    path = url.rstrip("/")
    if url.startswith("pipe:"):
        path = f"shard-{number:06d}"
    elif "://" in url:
        path = urlsplit(url).path.rstrip("/")
    base = path.rpartition("/")[2]
    return _ENDING.sub("", base) or f"shard-{number:06d}"
