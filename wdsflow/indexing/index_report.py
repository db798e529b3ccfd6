"""The kinds of sidecar files, and the report of an indexing run."""

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from wdsflow.records.line import Counts, reason_lines
from wdsflow.text.shell import escape
from wdsflow.text.words import how_many, listed

SIZES, LENGTH, WIDS, TIMM = "sizes.json", "__len__", "shardindex.json", "_info.json"
NV_META = ".nv-meta"  # a folder
NV_INFO, NV_SPLIT, NV_DATASET = f"{NV_META}/.info.json", f"{NV_META}/split.yaml", f"{NV_META}/dataset.yaml"
NV_SQLITE, NV_UUID = f"{NV_META}/index.sqlite", f"{NV_META}/index.uuid"
MANIFEST = "checksums.json"

OF_OFFSETS = frozenset(("dali", "energon", "webshart"))  # name places in the tar as it is stored

_HELD_OUT = re.compile(r"(?:^|[-_.])(val|valid|validation|test)(?:[-_.]|$)", re.IGNORECASE)


def shard_files(name: str, kinds: Iterable[str]) -> dict[str, str]:
    """Return the sidecar of a shard for each kind that has one, by the names that their readers look for.

    >>> shard_files("a.b-000.tar", ["sizes", "dali", "energon", "webshart", "img2dataset"])
    {'dali': 'a.b-000.idx', 'energon': 'a.b-000.tar.idx', 'webshart': 'a.b-000.json', 'img2dataset': 'a_stats.json'}
    """
    first, stem = name.partition(".")[0], os.path.splitext(name)[0]
    names = {
        "dali": f"{stem}.idx",
        "energon": f"{stem}.tar.idx",
        "webshart": f"{stem}.json",
        "img2dataset": f"{first}_stats.json",
    }
    return {kind: names[kind] for kind in kinds if kind in names}


def split_of(name: str) -> str:
    """Return the split that a shard belongs to by its name.

    >>> split_of("imagenet-train-0001.tar"), split_of("cc3m-val-01.tar"), split_of("test_0.tar"), split_of("contest-0.tar")
    ('train', 'validation', 'test', 'train')
    """
    found = _HELD_OUT.search(name)
    if found is None:
        return "train"
    return "test" if found[1].lower() == "test" else "validation"


_SHOWN = 20


@dataclass
class IndexReport:
    """What became of all shards."""

    shards: int = 0
    resumed: int = 0  # shards whose sidecars were there already
    samples: int = 0
    indexed: int = 0
    left_out: Counter[str] = field(default_factory=Counter)  # reason -> samples
    refused: list[tuple[str, str]] = field(default_factory=list)  # damaged shard, why
    unpack: dict[str, str] = field(default_factory=dict)  # damaged shard -> command, where repair brings nothing back
    lacking: list[tuple[str, str]] = field(default_factory=list)  # file that could not be made, why
    kept: list[str] = field(default_factory=list)  # files with other contents that something else wrote
    settings: list[str] = field(default_factory=list)  # files of the user's, which stay
    written: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)  # files of shards that are gone
    manifests: list[str] = field(default_factory=list)  # those of --checksums, that are now right
    same: int = 0  # files that were right already
    stale_removed: int = 0  # temporary files of runs that were killed

    @property
    def ok(self) -> bool:
        """Whether all that was asked for is there."""
        return not (self.refused or self.lacking or self.kept)

    def check(self) -> None:
        """Raise RuntimeError if a sample is unaccounted for."""
        self._counts.check(repr(self))

    @property
    def _counts(self) -> Counts:
        return Counts("samples", self.samples, self.indexed, self.left_out)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        for title, rows in (("not indexed", self.refused), ("not written", self.lacking)):
            for name, why in rows[:_SHOWN]:
                yield f"{title}: {escape(name, 300)}: {escape(why, 300)}"
            if len(rows) > _SHOWN:
                yield f"{title}: {len(rows) - _SHOWN:,} more"
        for path in self.kept[:_SHOWN]:
            yield f"kept: {escape(path, 300)}: something else wrote it, with other contents"
        if len(self.kept) > _SHOWN:
            yield f"kept: {len(self.kept) - _SHOWN:,} more"
        for path in self.settings:
            yield f"kept: {escape(path, 300)}: your own settings"
        before = f" ({how_many(self.resumed, 'shard')} done before)" if self.resumed else ""
        counts = self._counts.sum(" sample" if self.samples == 1 else " samples", "indexed")
        yield f"{how_many(self.shards, 'shard')}{before}: {counts}"
        yield from reason_lines("left out", self.left_out)
        if self.removed:
            yield f"{how_many(len(self.removed), 'file')} of shards that are gone removed: {_some(self.removed)}"
        names = sorted(self.written)
        right = f"; {how_many(self.same, 'file')} right already" if self.same else ""
        yield f"{how_many(len(names), 'file')} written{f': {_some(names)}' if names else ''}{right}"


def _some(paths: Sequence[str]) -> str:
    names = [escape(path, 300) for path in paths]
    return listed(names) if len(names) <= 6 else f"{', '.join(names[:3])} ... {names[-1]}"
