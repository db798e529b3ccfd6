"""Counts the members of one shard, in the order of the tar, and their traits."""

import re
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Protocol

from wdsflow.shards.samples.repeats import RepeatFinder
from wdsflow.shards.tar.members import (
    PieceReader,
    is_junk,
    is_meta,
    split_as_webdataset,
    split_name,
)
from wdsflow.shards.tar.walk import MemberBatch, Occurrences, Row, Stop

from .content_scan import ContentScanner, EmptyContentScanner
from .evidence import ScanOptions, ShardEvidence, Tally
from .member_contents import Read
from .naming import is_hidden, is_utf8, note_unusual_name
from .runs import LONGEST_RUN, RunCollector
from .shape_facts import note_shapes
from .shapes import Part, Shape
from .sketches import smallest_hashes
from .statuses import MISFIT, UNKNOWN
from .tallies import TALLIES

# Keys of one shard that are remembered to find members that are not adjacent.
_MOST_KEYS = 1 << 20
# Field names that are remembered, and those with a status; more than that only with malicious
# names.
_MOST_PARTS = 4096
# Members of a run that the hot loop of level names takes.
_SHORT_RUN = 64
# Hashes of a sketch of keys.
_SKETCH = 64
# In keys, one a line.
_UNUSUAL = re.compile(r"^[_/]|\.", re.MULTILINE)


class MemberWalk(Protocol):
    """A source of members: a walk over a tar, or a substitute for members not yet written."""

    @property
    def stop(self) -> Stop | None:
        """How the archive ends; None before its end."""

    @property
    def seen(self) -> Mapping[str, Occurrences]:
        """Faults of the archive."""

    def read(self, member: Row, start: int, size: int) -> bytes:
        """Return a part of the contents of a member of the latest batch."""


class Scanner:
    """Fills the evidence of one shard: ``batch`` for each batch of a walk, then ``finish``."""

    def __init__(self, shard: ShardEvidence, options: ScanOptions, main: RunCollector) -> None:
        self.shard = shard
        if options.columns is not None and options.columns.url == shard.url:
            shard.columns = options.columns
        self.main = main
        # Made at the first hidden member.
        self.visible: RunCollector | None = None
        # Made at the first metadata member.
        self.all: RunCollector | None = None
        # Field names that have occurred, at level names.
        self.parts: dict[str, Part] = {}
        # Field names with the status of their contents.
        self.judged: dict[tuple[str, str], Part] = {}
        self.keys: set[str] = set()
        # Keys of twins, dot-files and metadata.
        self.junk: set[str] = set()
        # Of those, the ones that webdataset takes for keys of samples.
        self.twins: set[str] = set()
        self.repeats = RepeatFinder()
        # Of the names of members, after the key.
        self.endings: dict[Shape, tuple[str, ...]] = {}
        # Members whose names start with ./.
        self.prefixed = 0
        self.options = options
        self.names_only = options.level == "names"
        self.scanner_class = EmptyContentScanner if self.names_only else ContentScanner
        self.contents: ContentScanner = self.scanner_class(shard, options)
        # For the contents of junk, which readers open; made at the first of it.
        self.junk_contents: ContentScanner | None = None

    def note(self, name: str) -> Tally:
        """Return the tally of that name, to be added to."""
        assert name in TALLIES, name
        return self.shard.tallies.setdefault(name, Tally())

    def batch(self, batch: MemberBatch, walk: MemberWalk) -> None:
        """Take the members of one batch."""
        if batch.is_past_stop:
            self._take_beyond(batch)
        elif self.names_only and all(row[1] for row in batch.rows):
            self._take_names(batch)
        else:
            # Of empty members the contents are known at any level.
            self._take_contents(batch, walk)

    def _take_names(self, batch: MemberBatch) -> None:
        """Take a batch at level names: the hot loop.

        Work that is the same for most members is done once per run, or once for many runs.
        """
        rows = batch.rows
        main = self.main
        parts = self.parts
        repeats = self.repeats
        self.shard.members += len(rows)
        self.shard.member_bytes += sum(row[1] for row in rows)
        # Of the open run, if nothing about its name is unusual.
        run_key: str | None = None
        run = main.parts
        at = 0
        while at < len(rows):
            name, size, _, header, kind = rows[at]
            key, _, suffix = name.partition(".")
            part = parts.get(suffix)
            if part is None or kind != "file" or self.visible is not None:
                self._take_unusual(name, header, kind, size, None)
                run_key = None
                run = main.parts
            elif key == run_key and len(run) < _SHORT_RUN:
                run.append(part)
            elif _is_unusual(key):
                self._take_unusual(name, header, kind, size, None)
                run_key = None
                run = main.parts
            elif key == main.key:
                main.add(key, part, header)
                run_key = key
            else:
                shape = tuple(run)
                if shape in main.counts and main.head is not None:
                    main.counts[shape] += 1
                    main.note_again(shape)
                    if repeats.pause:
                        repeats.pause -= 1
                    elif members := self._take_runs(rows, at, shape):
                        at += members
                        run_key = main.key
                        run = main.parts
                        continue
                else:
                    main.close()
                if key in self.keys:
                    self.note("key.again").add(key, header)
                    main.is_again = True
                self.keys.add(key)
                main.key = run_key = key
                main.offset = header
                main.parts = run = [part]
            at += 1

    def _take_runs(self, rows: Sequence[Row], at: int, shape: Shape) -> int:
        """Take many runs of a known shape and open the last one; return the number of members.

        The number may be 0.
        """
        endings = self.endings.get(shape)
        if endings is None:
            endings = self.endings[shape] = tuple(f".{part.suffix}" for part in shape)
        keys = self.repeats.keys(rows, at, endings)
        if not keys or _any_is_unusual(keys):
            return 0
        new_keys = set(keys)
        if len(new_keys) < len(keys) or not self.keys.isdisjoint(new_keys):
            return 0
        self.keys |= new_keys
        self.main.counts[shape] += len(keys) - 1
        members = len(keys) * len(shape)
        self.main.key = keys[-1]
        self.main.offset = rows[at + members - len(shape)][3]
        self.main.parts = list(shape)
        return members

    def _take_contents(self, batch: MemberBatch, walk: MemberWalk) -> None:
        """The loop of the other levels; as in ``_take_names``, plain members take a short path."""
        main = self.main
        parts = self.parts
        judged = self.judged
        status_of = self.contents.status
        pieces = PieceReader()
        pieces.take(batch.pieces or ((batch.base, batch.window),))
        glance = pieces.peek

        def read(offset: int, count: int) -> bytes:
            """Read from the contents of the member that the loop is at."""
            data = glance(row[2] + offset, count)
            return data if len(data) == count else walk.read(row, offset, count)

        run_key: str | None = None
        again = False
        self.shard.members += len(batch.rows)
        self.shard.member_bytes += sum([row[1] for row in batch.rows])
        for row in batch.rows:
            name, size, _, header, kind = row
            key, _, suffix = name.partition(".")
            part = parts.get(suffix)
            if (
                part is None
                or kind != "file"
                or self.visible is not None
                or (key != run_key and _is_unusual(key))
            ):
                self._take_unusual(name, header, kind, size, read if kind == "file" else None)
                run_key = None
                continue
            if key != run_key:
                run_key = key
                if key != main.key:
                    self.contents.end_run(main.parts)
                    again = self._remember(self.keys, key, "key.again", header)
            status = status_of(key, suffix, header, size, read)
            part = judged.get((suffix, status)) or self._judged_part(suffix, status)
            if key == main.key and len(main.parts) < LONGEST_RUN:
                main.parts.append(part)
            else:
                main.add(key, part, header, again=again)

    def _judged_part(self, suffix: str, status: str) -> Part:
        fits = not status.endswith(MISFIT)
        part = Part(suffix, status.removesuffix(MISFIT), fits)
        if len(self.judged) < _MOST_PARTS:
            self.judged[suffix, status] = part
        return part

    def _take_unusual(
        self, name: str, offset: int, kind: str, size: int, read: Read | None
    ) -> None:
        """Take one member whose name, kind or field may be unusual."""
        if kind not in ("file", "sparse"):
            self.shard.members -= 1
            self.shard.member_bytes -= size
            if not is_utf8(name):
                self.note("name.junk-not-utf8").add(None, offset, name)
            return
        split = split_as_webdataset(name)
        if split is None or not _is_plain(name, split[0]):
            note_unusual_name(name, split[0] if split else split_name(name)[0], offset, self.note)
        self.prefixed += name.startswith("./")
        if split is None:
            if is_meta(name):
                self._take_metadata(name, offset)
            return
        key, suffix = split
        if is_hidden(name):
            self.visible = self.visible or self.main.copy()
        junk = is_junk(key, suffix)
        again = False
        if key != self.main.key:
            self.contents.end_run(self.main.parts)
            if junk:
                self._remember(self.junk, key, "key.again-junk", offset)
                self._remember(self.twins, key, "key.again-twin", offset)
            else:
                again = self._remember(self.keys, key, "key.again", offset)
        elif not junk:
            # A dot-file may have begun the run.
            self.keys.add(key)
        part = self._part(key, suffix, offset, size, read)
        if self.visible is not None and not is_hidden(name):
            self.visible.add(key, part, offset)
        if self.all is not None:
            if key == self.main.key != self.all.key:
                self.note("key.again-junk").add(key, offset)
            self.all.add(key, part, offset)
        self.main.add(key, part, offset, again=again)

    def _take_metadata(self, name: str, offset: int) -> None:
        """Take a member that webdataset skips.

        Hugging Face looks only at its base name. Ray Data takes all such members.
        """
        key, suffix = split_name(name)
        if key is None or suffix is None:
            return
        self.visible = self.visible or self.main.copy()
        self.all = self.all or self.main.copy()
        if key != self.all.key:
            self._remember(self.junk, key, "key.again-junk", offset)
        self.all.add(key, Part(suffix, UNKNOWN), offset)
        if not is_hidden(name):
            self.visible.add(key, Part(suffix, UNKNOWN), offset)

    def _remember(self, keys: set[str], key: str, tally: str, offset: int) -> bool:
        """Add a key to a set and return whether it was already there.

        A key that was there is counted under ``tally``.
        """
        if key in keys:
            self.note(tally).add(key, offset)
            return True
        if len(keys) < _MOST_KEYS:
            keys.add(key)
        return False

    def _part(self, key: str, suffix: str, offset: int, size: int, read: Read | None) -> Part:
        part = self.parts.get(suffix)
        if part is None:
            if any(char.isupper() for char in suffix):
                self.note("name.upper").add(key, offset, suffix)
            part = Part(suffix, UNKNOWN)
            if suffix and "/" not in suffix and len(self.parts) < _MOST_PARTS:
                self.parts[suffix] = part
        if read is None:
            return part
        contents = self.contents
        # Readers decode it, but it is no image or caption of
        # the set: its facts go to a shard that nobody reads.
        if is_junk(key, suffix):
            if self.junk_contents is None:
                unread = ShardEvidence(self.shard.url)
                self.junk_contents = self.scanner_class(unread, self.options)
            contents = self.junk_contents
            contents.end_run(())
        status = contents.status(key, suffix, offset, size, read)
        return self.judged.get((suffix, status)) or self._judged_part(suffix, status)

    def _take_beyond(self, batch: MemberBatch) -> None:
        """Count the members after the end of the archive for tarfile."""
        self.shard.beyond += len(batch.rows)
        for member in batch.members:
            split = split_as_webdataset(member.name) if member.kind == "file" else None
            if split and not is_junk(*split) and split[0] not in self.keys:
                self.keys.add(split[0])
                self.shard.samples_after_stop += 1

    def finish(self, walk: MemberWalk) -> None:
        """Write the facts that are known only at the end of the shard."""
        shard = self.shard
        self.contents.end_run(self.main.parts)
        self.contents.finish()
        shard.runs = self.main.runs()
        shard.visible_runs = None if self.visible is None else self.visible.runs()
        shard.all_runs = None if self.all is None else self.all.runs()
        shard.resumed_runs = self.main.resumed
        shard.samples = len(self.keys)
        shard.key_sketch = smallest_hashes(self.keys, _SKETCH)
        shard.junk_sketch = smallest_hashes(self.twins, _SKETCH)
        if self.keys or self.twins:
            shard.key_span = min(chain(self.keys, self.twins)), max(chain(self.keys, self.twins))
        # The walk is over.
        assert walk.stop is not None
        shard.stop = walk.stop
        for name, seen in walk.seen.items():
            key = split_name(seen.name)[0] if seen.name else None
            self.note(name).add(key, seen.offset, seen.detail or seen.name or "", seen.count)
        if 0 < self.prefixed < shard.members:
            fewer = min(self.prefixed, shard.members - self.prefixed)
            self.note("name.mixed-prefix").add(None, None, count=fewer)
        if self.main.long_runs:
            self.note("key.long-run").add(None, None, count=self.main.long_runs)
        note_shapes(shard, self.note)


def _is_unusual(key: str) -> bool:
    if not key or key[0] in "_/" or key[-1] == "/":
        return True
    return not key.isascii() or not key.isprintable() or "__MACOSX/" in key


def _any_is_unusual(keys: Sequence[str]) -> bool:
    """Return whether ``_is_unusual`` may hold for one of many keys of ``RepeatFinder``."""
    lines = "\n".join(keys)
    if not lines.isascii() or not "".join(keys).isprintable():
        return True
    return _UNUSUAL.search(lines) is not None


def _is_plain(name: str, key: str) -> bool:
    """Return whether nothing about the name of a member can be a fault."""
    if not name.isascii() or not name.isprintable() or name[0] in "_/." or key[-1] == "/":
        return False
    return "__MACOSX" not in name and "../" not in name
