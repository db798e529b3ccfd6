"""Which shards are files of JSON lines."""

import re
from collections.abc import Sequence

from wdsflow.shards.output_names import output_names

SUFFIX = ".jsonl"
_NAME = re.compile(r"([^/]*)\.jsonl(\.gz|\.zst|\.bz2|\.xz)?")


def is_lines(url: str) -> bool:
    """Return whether a shard is one of JSON lines, by its name.

    >>> is_lines("data/train.jsonl.zst"), is_lines("https://host/a.jsonl?x=1"), is_lines("data/train.tar")
    (True, True, False)
    """
    return _named(url) is not None


def stem_of(url: str) -> str:
    """Return the base name of a file of JSON lines without its endings.

    >>> stem_of("data/train.jsonl.zst")
    'train'
    """
    found = _named(url)
    if found is None:
        raise ValueError(f"{url} is not a file of JSON lines")
    return found[1]


def names_of(urls: Sequence[str]) -> list[str]:
    """Return the name of each shard's output: ``output_names`` for tars, the same with another extension for lines.

    >>> names_of(["a/x.tar", "a/x.jsonl", "b/y.jsonl.gz"])
    ['x.tar', 'x-2.jsonl', 'y.jsonl']
    """
    names = output_names([f"{stem_of(url)}.tar" if is_lines(url) else url for url in urls])
    return [
        name.removesuffix(".tar") + SUFFIX if is_lines(url) else name for url, name in zip(urls, names, strict=True)
    ]


def _named(url: str) -> re.Match[str] | None:
    if url.startswith("pipe:"):
        return None
    return _NAME.fullmatch(url.partition("?")[0].rpartition("/")[2] if "://" in url else url.rpartition("/")[2])
