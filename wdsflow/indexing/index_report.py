"""The kinds of sidecar files, the record of those that were written, and the report of an indexing run."""

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from wdsflow.records.line import Counts, OneFile, reason_lines
from wdsflow.records.output_record import OutputRecord
from wdsflow.shards.atomic import write_file
from wdsflow.shards.shard_identity import fingerprint
from wdsflow.text.shell import escape
from wdsflow.text.words import how_many, listed

SIZES, LENGTH, WIDS, TIMM = "sizes.json", "__len__", "shardindex.json", "_info.json"
NV_META = ".nv-meta"  # a folder
NV_INFO, NV_SPLIT, NV_DATASET = f"{NV_META}/.info.json", f"{NV_META}/split.yaml", f"{NV_META}/dataset.yaml"
NV_SQLITE, NV_UUID = f"{NV_META}/index.sqlite", f"{NV_META}/index.uuid"
MANIFEST = "checksums.json"

OF_OFFSETS = frozenset(("dali", "energon", "webshart"))  # hold offsets into the stored tar

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
    """The outcome of an indexing run."""

    shards: int = 0
    resumed: int = 0  # shards whose sidecars already existed
    samples: int = 0
    indexed: int = 0
    left_out: Counter[str] = field(default_factory=Counter)  # reason -> samples
    refused: list[tuple[str, str]] = field(default_factory=list)  # damaged shard, why
    unpack: dict[str, str] = field(default_factory=dict)  # damaged shard -> command, if repair recovers nothing
    lacking: list[tuple[str, str]] = field(default_factory=list)  # file that could not be made, why
    kept: list[str] = field(default_factory=list)  # files of other programs with other contents
    settings: list[str] = field(default_factory=list)  # files that the user has edited
    written: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)  # files of removed shards
    manifests: list[str] = field(default_factory=list)  # files of --checksums that are up to date
    same: int = 0  # files that were up to date already
    stale_removed: int = 0  # temporary files of runs that were killed

    @property
    def ok(self) -> bool:
        """Whether all requested files are up to date."""
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
        kept = [(path, "something else wrote it, with other contents") for path in self.kept]
        for title, rows in (("not indexed", self.refused), ("not written", self.lacking), ("kept", kept)):
            for name, why in rows[:_SHOWN]:
                yield f"{title}: {escape(name, 300)}: {escape(why, 300)}"
            if len(rows) > _SHOWN:
                yield f"{title}: {len(rows) - _SHOWN:,} more"
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


@dataclass
class IndexLine(OneFile):
    """A file that was written, or what is known of a shard (``facts``): ``made_from`` is the identity of the shards."""

    facts: dict[str, object] | None = None


_REASONS = {"code": "another wdsflow indexed it", "shard": "the shard changed"}


class IndexRecord(OutputRecord[IndexLine]):
    """The files next to shards that runs wrote: what something else wrote there stays, unless it is the same.

    Args:
        folder: their folder.
        report: gets what became of each.
        force: also replace files that something else wrote.
    """

    def __init__(self, folder: Path, report: IndexReport, *, force: bool) -> None:
        super().__init__(folder, "index", "indexed", IndexLine, _REASONS)
        self.report, self.force = report, force

    def ours(self, name: str) -> IndexLine | None:
        """Return the line of a file or shard, if the file is as it was written."""
        return self.known(name, dict)[0]

    def is_made_from(self, name: str, of: Mapping[str, object]) -> bool:
        """Return whether a file is there as it was written, from the same input."""
        found = self.ours(name)
        return found is not None and found.made_from == json.loads(json.dumps(of))

    def may_replace(self, name: str) -> bool:
        """Return whether a file may be written: there is none, it was written here, or ``force`` was given."""
        return self.force or not (self.folder / name).exists() or self.ours(name) is not None

    def put(self, name: str, data: bytes, of: Mapping[str, object]) -> None:
        """Write a file, unless there is one with other contents that something else wrote. Raises OSError."""
        path = self.folder / name
        with suppress(OSError):
            if path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data:
                if self.ours(name) is not None:
                    self._add_line(name, of)
                self.report.same += 1
                return
        if not self.may_replace(name):
            self.report.kept.append(str(path))
            return
        path.parent.mkdir(exist_ok=True)
        write_file(path, data)
        self.note(name, of)

    def note(self, name: str, of: Mapping[str, object]) -> None:
        """Note that a file was written. Raises OSError."""
        self._add_line(name, of)
        self.report.written.append(str(self.folder / name))

    def _add_line(self, name: str, of: Mapping[str, object]) -> None:
        self.add(IndexLine(name=name, made_from=dict(of), identity=fingerprint(str(self.folder / name))))

    def unlink(self, name: str) -> None:
        """Remove a file if it is as it was written here. Raises OSError."""
        path = self.folder / name
        if path.is_file() and self.ours(name) is not None:
            path.unlink()
            self.lines.pop(name, None)
            self.report.removed.append(str(path))
