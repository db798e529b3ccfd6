"""Names of shards, of outputs and of fields."""

import re
from collections.abc import Iterable, Sequence
from urllib.parse import urlsplit

SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")

# Fields that readers take for the image, in OpenCLIP's order.
IMAGE_FIELDS = ("jpg", "png", "jpeg", "webp")
IMAGES = ";".join(IMAGE_FIELDS)

_SURROGATE = re.compile("[\udc80-\udcff]")
_ENDING = re.compile(r"(\.tar)?(\.(gz|bz2|xz|zst|zstd))?$|\.(tgz|tbz2?|txz|tzst)$", re.IGNORECASE)


def alternatives(fields: str | Iterable[str]) -> tuple[str, ...]:
    """Split names joined by semicolons.

    Raises ValueError if there are none, or if one is reserved by webdataset (``__key__``).

    >>> alternatives("jpg; png")
    ('jpg', 'png')
    """
    parts = fields.split(";") if isinstance(fields, str) else fields
    stripped = [part.strip() for part in parts]
    names = tuple(dict.fromkeys(name for name in stripped if name))
    if not names:
        raise ValueError(
            f"{fields!r} names no field; give one such as 'txt', or alternatives such as 'jpg;png'"
        )
    for name in names:
        if is_reserved(name):
            raise ValueError(f"{name!r} belongs to webdataset and is not for stages to change")
    return names


def is_reserved(name: str) -> bool:
    """Return whether webdataset reserves a field name, such as ``__key__`` and ``__url__``."""
    return name.startswith("__") and name.endswith("__")


def output_names(urls: Sequence[str]) -> list[str]:
    r"""Return a file name for each url: its base name as a plain tar; equal ones are numbered.

    Bytes that are not UTF-8 are spelled out, as in urls: libraries that write files cannot have
    them in a name.

    >>> output_names(["\udcff.tar"])
    ['%FF.tar']
    >>> output_names(["a/0.tar", "b/0.tar.gz", "https://host/1.tgz?download=true"])
    ['0.tar', '0-2.tar', '1.tar']
    """
    stems = [_stem(url, number) for number, url in enumerate(urls)]
    used: set[str] = set()
    names: list[str] = []
    for stem in stems:
        name = stem
        count = 1
        # A numbered name must not be that of another url, either.
        while name in used or (count > 1 and name in stems):
            count += 1
            name = f"{stem}-{count}"
        used.add(name)
        names.append(f"{name}.tar")
    return names


def _stem(url: str, number: int) -> str:
    path = url.rstrip("/")
    if url.startswith("pipe:"):
        path = f"shard-{number:06d}"
    elif "://" in url:
        path = urlsplit(url).path.rstrip("/")
    base = path.rpartition("/")[2]
    base = _SURROGATE.sub(lambda match: f"%{ord(match[0]) - 0xDC00:02X}", base)
    return _ENDING.sub("", base) or f"shard-{number:06d}"
