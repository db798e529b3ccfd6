"""How the names of shards end, what their fields are called, and what the files are called that are made of them."""

import re
from collections.abc import Iterable, Sequence
from urllib.parse import urlsplit

SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")


IMAGE_FIELDS = ("jpg", "png", "jpeg", "webp")  # what readers take for the image, in OpenCLIP's order
IMAGES = ";".join(IMAGE_FIELDS)


def alternatives(fields: str | Iterable[str]) -> tuple[str, ...]:
    """Split names joined by semicolons. Raises ValueError if there are none, or webdataset's own (``__key__``).

    >>> alternatives("jpg; png")
    ('jpg', 'png')
    """
    parts = fields.split(";") if isinstance(fields, str) else fields
    names = tuple(dict.fromkeys(name for part in parts if (name := part.strip())))
    if not names:
        raise ValueError(f"{fields!r} names no field; give one such as 'txt', or alternatives such as 'jpg;png'")
    for name in names:
        if is_meta(name):
            raise ValueError(f"{name!r} belongs to webdataset and is not for stages to change")
    return names


def is_meta(name: str) -> bool:
    """Whether a name is one of webdataset's own, such as ``__key__`` and ``__url__``."""
    return name.startswith("__") and name.endswith("__")


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
