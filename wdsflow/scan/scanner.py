"""Takes the members of one shard, in the order of the tar, and counts their traits."""

import re
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Protocol

from wdsflow.shards.samples.grouping import Repeats
from wdsflow.shards.tar.members import PieceReader, is_junk, is_meta, key_of, split_name
from wdsflow.shards.tar.walk import MemberBatch, Row, Seen, Stop

from .content_scan import Looker, NamesLooker, Read, smallest_hashes
from .evidence import MISFIT, UNKNOWN, Part, ScanOptions, Shape, ShardEvidence, Tally
from .naming import TALLIES, is_hidden, is_utf8, note_name
from .runs import LONGEST_RUN, RunCollector, note_shapes

# Keys of one shard that are remembered to find members that are not adjacent.
_KEYS_KNOWN = 1 << 20
# In keys, one a line.
_UNUSUAL = re.compile(r"^[_/]|\.", re.MULTILINE)


class MemberWalk(Protocol):
    """A source of members: a walk over a tar, or its stand-in for members that are not written yet."""

    @property
    def stop(self) -> Stop | None:
        """How the archive ends; None before its end."""

    @property
    def seen(self) -> Mapping[str, Seen]:
        """Faults of the archive."""

    def read(self, member: Row, start: int, size: int) -> bytes:
        """Return a part of the contents of a member of the latest batch."""


def _is_unusual(key: str) -> bool:
    odd = not key or key[0] in "_/" or key[-1] == "/" or not key.isascii() or not key.isprintable()
    return odd or "__MACOSX/" in key


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
        # Field names met before, at level names.
        self.parts: dict[str, Part] = {}
        # Field names with the status of their contents.
        self.judged: dict[tuple[str, str], Part] = {}
        self.keys: set[str] = set()
        # Keys of twins, dot-files and metadata.
        self.junk: set[str] = set()
        # Of those, the ones that webdataset takes for keys of samples.
        self.twins: set[str] = set()
        self.repeats = Repeats()
        # Of the names of members, after the key.
        self.endings: dict[Shape, tuple[str, ...]] = {}
        # Members whose names start with ./.
        self.prefixed = 0
        self.names_only = options.level == "names"
        self.looker = NamesLooker(shard, options) if self.names_only else Looker(shard, options)
        self.options = options
        # For the contents of junk, which readers open; made at the first of it.
        self.junk_looker: Looker | None = None

    def note(self, name: str) -> Tally:
        """Return the tally of that name, to be added to."""
        assert name in TALLIES, name
        return self.shard.tallies.setdefault(name, Tally())

    def batch(self, batch: MemberBatch, walk: MemberWalk) -> None:
        """Take the members of one batch."""
        if batch.beyond:
            self._beyond(batch)
        elif self.names_only and all(row[1] for row in batch.rows):
            self._names(batch)
        else:
            # Of empty members the contents are known at any level.
            self._contents(batch, walk)

    def _names(self, batch: MemberBatch) -> None:
        """The hot loop of level names: work that is the same for most members is done once per run, or once for many."""
        rows, main, parts, repeats = batch.rows, self.main, self.parts, self.repeats
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
                self._member(name, header, kind, size, None)
                run_key, run = None, main.parts
            elif key == run_key and len(run) < 64:
                run.append(part)
            elif _is_unusual(key):
                self._member(name, header, kind, size, None)
                run_key, run = None, main.parts
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
                    elif more := self._runs(rows, at, shape):
                        at += more
                        run_key, run = main.key, main.parts
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

    def _runs(self, rows: Sequence[Row], at: int, shape: Shape) -> int:
        """Take many runs of a known shape, and open the last one; return how many members they have, maybe none."""
        endings = self.endings.get(shape)
        if endings is None:
            endings = self.endings[shape] = tuple(f".{part.suffix}" for part in shape)
        keys = self.repeats.keys(rows, at, endings)
        text = "\n".join(keys)
        new = set(keys)
        if (
            not keys
            or len(new) < len(keys)
            or not self.keys.isdisjoint(new)
            or not text.isascii()
            or not "".join(keys).isprintable()
            or _UNUSUAL.search(text)
        ):
            return 0
        self.keys |= new
        self.main.counts[shape] += len(keys) - 1
        members = len(keys) * len(shape)
        self.main.key, self.main.offset = keys[-1], rows[at + members - len(shape)][3]
        self.main.parts = list(shape)
        return members

    def _contents(self, batch: MemberBatch, walk: MemberWalk) -> None:
        """The loop of the other levels; as in ``_names``, plain members take the short way."""
        main, parts, judged, looker = self.main, self.parts, self.judged, self.looker
        pieces = PieceReader()
        pieces.take(batch.pieces or ((batch.base, batch.window),))
        look, glance = looker.look, pieces.glance

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
                self._member(name, header, kind, size, read if kind == "file" else None)
                run_key = None
                continue
            if key != run_key:
                run_key = key
                if key != main.key:
                    looker.end_run(main.parts)
                    again = self._remember(self.keys, key, "key.again", header)
            status = look(key, suffix, header, size, read)
            part = judged.get((suffix, status)) or self._judge(suffix, status)
            if key == main.key and len(main.parts) < LONGEST_RUN:
                main.parts.append(part)
            else:
                main.add(key, part, header, again=again)

    def _judge(self, suffix: str, status: str) -> Part:
        part = Part(suffix, status.removesuffix(MISFIT), not status.endswith(MISFIT))
        if len(self.judged) < 4096:
            self.judged[suffix, status] = part
        return part

    def _member(self, name: str, offset: int, kind: str, size: int, read: Read | None) -> None:
        """Take one member the careful way."""
        if kind not in ("file", "sparse"):
            self.shard.members -= 1
            self.shard.member_bytes -= size
            if not is_utf8(name):
                self.note("name.junk-not-utf8").add(None, offset, name)
            return
        split = key_of(name)
        plain = split is not None and name.isascii() and name.isprintable() and name[0] not in "_/."
        if not plain or split[0][-1] == "/" or "__MACOSX" in name or "../" in name:  # type: ignore[index]
            note_name(name, split[0] if split else split_name(name)[0], offset, self.note)
        self.prefixed += name.startswith("./")
        if split is None:
            if is_meta(name):
                self._metadata(name, offset)
            return
        key, suffix = split
        if is_hidden(name):
            self.visible = self.visible or self.main.copy()
        junk, again = is_junk(key, suffix), False
        if key != self.main.key:
            self.looker.end_run(self.main.parts)
            if junk:
                self._remember(self.junk, key, "key.again-junk", offset)
                self._remember(self.twins, key, "key.again-twin", offset)
            else:
                again = self._remember(self.keys, key, "key.again", offset)
        elif not junk:
            # A dot-file began the run.
            self.keys.add(key)
        part = self._part(key, suffix, offset, size, read)
        if self.visible is not None and not is_hidden(name):
            self.visible.add(key, part, offset)
        if self.all is not None:
            if key == self.main.key != self.all.key:
                self.note("key.again-junk").add(key, offset)
            self.all.add(key, part, offset)
        self.main.add(key, part, offset, again=again)

    def _metadata(self, name: str, offset: int) -> None:
        """Take a member that webdataset skips; Hugging Face looks at its base name only, Ray Data takes all."""
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

    def _remember(self, known: set[str], key: str, again: str, offset: int) -> bool:
        """Count a key under ``again`` if it is known, and know it from now on; return whether it was known."""
        if key in known:
            self.note(again).add(key, offset)
            return True
        if len(known) < _KEYS_KNOWN:
            known.add(key)
        return False

    def _part(self, key: str, suffix: str, offset: int, size: int, read: Read | None) -> Part:
        part = self.parts.get(suffix)
        if part is None:
            if any(char.isupper() for char in suffix):
                self.note("name.upper").add(key, offset, suffix)
            part = Part(suffix, UNKNOWN)
            if suffix and "/" not in suffix and len(self.parts) < 4096:
                self.parts[suffix] = part
        if read is None:
            return part
        looker: Looker = self.looker
        # Readers meet its contents, but they are no images or captions of the set.
        if is_junk(key, suffix):
            looker = self.junk_looker = self.junk_looker or type(looker)(
                ShardEvidence(self.shard.url), self.options
            )
            looker.end_run(())
        status = looker.look(key, suffix, offset, size, read)
        return self.judged.get((suffix, status)) or self._judge(suffix, status)

    def _beyond(self, batch: MemberBatch) -> None:
        self.shard.beyond += len(batch.rows)
        for member in batch.members:
            split = key_of(member.name) if member.kind == "file" else None
            if split and not is_junk(*split) and split[0] not in self.keys:
                self.keys.add(split[0])
                self.shard.unreached += 1

    def finish(self, walk: MemberWalk) -> None:
        """Write the facts that are known only at the end of the shard."""
        shard = self.shard
        self.looker.end_run(self.main.parts)
        self.looker.finish()
        shard.runs = self.main.runs()
        shard.visible_runs = None if self.visible is None else self.visible.runs()
        shard.all_runs = None if self.all is None else self.all.runs()
        shard.again = self.main.again
        shard.samples = len(self.keys)
        shard.key_sketch = smallest_hashes(self.keys, 64)
        shard.junk_sketch = smallest_hashes(self.twins, 64)
        if self.keys or self.twins:
            shard.key_span = min(chain(self.keys, self.twins)), max(chain(self.keys, self.twins))
        # The walk is over.
        assert walk.stop is not None
        shard.stop = walk.stop
        for name, seen in walk.seen.items():
            key = split_name(seen.name)[0] if seen.name else None
            self.note(name).add(key, seen.offset, seen.detail or seen.name or "", seen.count)
        if 0 < self.prefixed < shard.members:
            self.note("name.mixed-prefix").add(
                None, None, count=min(self.prefixed, shard.members - self.prefixed)
            )
        if self.main.long_runs:
            self.note("key.long-run").add(None, None, count=self.main.long_runs)
        note_shapes(shard, self.note)
