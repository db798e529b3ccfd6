"""One pass over a shard, for all of its sidecars."""

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from wdsflow.scan.evidence import ScanOptions, ShardEvidence
from wdsflow.scan.runs import RunCollector
from wdsflow.scan.scan import Identifying
from wdsflow.scan.scanner import Scanner
from wdsflow.shards.samples.grouping import Grouping, grouped
from wdsflow.shards.samples.tar_samples import CUT_AFTER_END, damage_of
from wdsflow.shards.shard_identity import Identity
from wdsflow.shards.source.base import SourceError, local_file
from wdsflow.shards.source.decompress import unpack_command
from wdsflow.shards.source.opening import open_source
from wdsflow.shards.tar.walk import Member, MemberBatch, Walk

_FIELDS = 1000  # fields of a shard that are counted by name
_BY_WIDS = re.compile(r"^((?:.*/)?.*?)\..*$")  # wids counts keys among distinct names, dot-files and metadata included

_ALL = Grouping(beyond=True)


class IndexedMember(NamedTuple):
    """A member of a sample."""

    field: str  # as in the tar
    name: str
    data: int  # offset of the contents
    size: int


class IndexedSample(NamedTuple):
    """Neighbouring members of one key."""

    key: str
    start: int  # offset of the first header
    members: list[IndexedMember]


@dataclass
class ShardFacts:
    """Facts about a shard, from one pass."""

    url: str
    samples: int = 0
    by_wids: int = 0  # samples as wids counts them
    by_energon: int = 0  # as Energon counts them: base names with dots in them may have merged some
    fields: dict[str, int] = field(default_factory=dict)  # name -> members
    size: int = 0  # bytes as stored
    changed: float = 0.0  # seconds since 1970
    damage: list[str] = field(default_factory=list)  # why it is not indexed
    unpack: str = ""  # the command that unpacks a damaged compressed stream in which no byte can be trusted
    obstacle: str = ""  # why it cannot have an index of offsets
    identity: Identity | None = None

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        identity = self.identity and [self.identity.size, self.identity.sha256.hex(), self.identity.mark]
        return {**vars(self), "identity": identity}

    @staticmethod
    def from_dict(found: Mapping[str, object]) -> "ShardFacts":
        """Convert back from ``to_dict``. Raises TypeError or ValueError for other values."""
        facts = ShardFacts(**found)  # type: ignore[arg-type]
        if facts.identity is not None:
            size, digest, mark = facts.identity
            facts.identity = Identity(size, bytes.fromhex(digest), mark)  # type: ignore[arg-type]
        return facts


@dataclass
class ShardContents:
    """The samples of a shard, in the order of the tar."""

    samples: list[IndexedSample] = field(default_factory=list)
    end: int = 0  # offset after the last member


def pass_over(url: str, *, places: bool, hashed: bool) -> tuple[ShardFacts, ShardContents]:
    """Read a shard once. ``places``: list all members, not only counts; ``hashed``: compute the SHA-256 of all stored bytes."""
    facts, contents = ShardFacts(url), ShardContents()
    shard = ShardEvidence(url)
    try:
        identifying = Identifying(url) if hashed else None
        digest = identifying.digest if identifying is not None else None
        with open_source(url, digest=digest) as source:
            walk = Walk(source)
            _walk_over(walk, shard, facts, contents, places=places)
            facts.size = source.size or 0
            if source.fd >= 0:
                facts.changed = os.fstat(source.fd).st_mtime
            if source.compression:
                facts.obstacle = f"it is compressed ({source.compression}): members have no place in the stored file"
            if identifying is not None:
                facts.identity = identifying.done()
                facts.size = facts.identity.size
            path = local_file(url)
            if source.fault is not None and not source.fault.trusted and path is not None and source.compression:
                facts.unpack = unpack_command(path, source.compression)
        facts.damage = [text for text in damage_of(walk) if CUT_AFTER_END not in text]
        if walk.ended and not facts.damage and "tar.second-archive" in walk.seen:
            facts.damage = [
                f"at byte {walk.seen['tar.second-archive'].offset:,} a second archive follows, which no reader reads"
            ]
    except OSError as error:
        facts.damage = [error.detail if isinstance(error, SourceError) else str(error)]
    facts.samples = shard.samples + shard.unreached
    return facts, contents


def _walk_over(walk: Walk, shard: ShardEvidence, facts: ShardFacts, contents: ShardContents, *, places: bool) -> None:
    scan = Scanner(shard, ScanOptions("names"), RunCollector())
    fields: Counter[str] = Counter()

    def batches() -> Iterator[MemberBatch]:
        names, key = set[str](), None
        for batch in walk:
            scan.batch(batch, walk)
            for name, _, _, _, kind in batch.rows:
                if kind in ("file", "sparse") and name not in names:
                    names.add(name)
                    if (found := _BY_WIDS.match(name)) and found[1] != key:
                        key = found[1]
                        facts.by_wids += 1
            contents.end = max(contents.end, Member(*batch.rows[-1]).end)
            yield batch

    for begins, key, suffix, (name, size, data, header, _) in grouped(batches(), _ALL):
        fields[suffix] += 1
        facts.by_energon += begins
        if places and begins:
            contents.samples.append(IndexedSample(key, header, []))
        if places:
            contents.samples[-1].members.append(IndexedMember(suffix, name, data, size))
    scan.finish(walk)
    facts.fields = dict(sorted(fields.most_common(_FIELDS)))
