"""Lists that the processes of a run write.

They hold the shards that were opened, the samples that entered, and what came out.

Each process has files of its own in the folder of the run, with a line for each entry. A line is
complete even if the process dies after it.
"""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from ..values.rows import Row
from ..values.sample_contents import SampleContent

# "entered": shard and key of each sample that is read and, where it comes first, its content;
# "items": the same of each item of a map-style dataset, of which only the number is known;
# "delivered": shard and key of each sample that came out; "rows": the content of each.
ListKind = Literal["entered", "items", "delivered", "rows"]
# Entries of a list of keys.
MOST_KEYS = 1_000_000
# Samples of which one process lists the contents.
MOST_CONTENTS = 100_000
# File of the shards that were opened, one path a line.
_OPENED = "opened"
# Folders of runs for which this process, or the one that it was forked from, lists what it opens.
_listing = set[Path]()


class RunList:
    """A list of one process.

    Args:
        folder: of the run.
        process: a name for the file.
        kind: of the entries.
    """

    def __init__(self, folder: Path, process: str, kind: ListKind) -> None:
        self._file = (folder / f"{process}.{kind}").open("w", buffering=1, encoding="utf-8")
        self._most = MOST_CONTENTS if kind == "rows" else MOST_KEYS
        self._count = 0

    def add(self, entry: object) -> None:
        """Add an entry, unless the list is full."""
        self._count += 1
        if self._count <= self._most:
            self._file.write(json.dumps(entry) + "\n")


def read_keys(
    folder: Path, kind: Literal["entered", "items", "delivered"]
) -> Iterator[tuple[str, str]]:
    """Yield shard and key of each sample in the lists of one kind."""
    for entry in _read(folder, kind):
        yield entry[0], entry[1]


def read_contents(folder: Path) -> dict[tuple[str, str], SampleContent]:
    """Return the contents of the samples that entered, by shard and key.

    Samples whose content was not listed are left out.
    """
    contents: dict[tuple[str, str], SampleContent] = {}
    for shard, key, *content in _read(folder, "entered"):
        if not content:
            continue
        shared = {}
        for name, marks in content[0].items():
            # Values such as labels are in many samples: each is kept once.
            shared[sys.intern(name)] = [sys.intern(mark) for mark in marks]
        contents.setdefault((shard, key), shared)
    return contents


def read_rows(folder: Path) -> list[Row]:
    """Return the contents of the samples that came out."""
    return list(_read(folder, "rows"))


def _read(folder: Path, kind: ListKind) -> Iterator[Any]:
    for path in sorted(folder.glob(f"*.{kind}")):
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                # Otherwise the process died while it wrote the line.
                if line.endswith("\n"):
                    yield json.loads(line)


def list_opened(folder: Path, urls: Sequence[str]) -> None:
    """List the shards that this process and its forks open from now on.

    A second call for the same folder does nothing.
    """
    if folder in _listing:
        return
    _listing.add(folder)
    names = {os.path.basename(url) for url in urls}
    listed = set[str]()
    file = (folder / _OPENED).open("a", buffering=1, encoding="utf-8", errors="surrogateescape")

    def add_path(event: str, values: tuple[object, ...]) -> None:
        if event != "open" or not isinstance(values[0], str | os.PathLike):
            return
        path = str(os.fspath(values[0]))
        if os.path.basename(path) in names and path not in listed:
            listed.add(path)
            file.write(os.path.realpath(path) + "\n")

    sys.addaudithook(add_path)


def read_opened(folder: Path, urls: Sequence[str]) -> set[str]:
    """Return the shards that were opened.

    They are those that Python opened, and those that samples have as their URL.
    """
    try:
        paths = set((folder / _OPENED).read_text("utf-8", "surrogateescape").splitlines())
    except FileNotFoundError:
        paths = set()
    named = {shard for shard, _ in read_keys(folder, "entered")}
    named |= {shard for shard, _ in read_keys(folder, "delivered")}
    return {url for url in urls if url in named or os.path.realpath(url) in paths}
