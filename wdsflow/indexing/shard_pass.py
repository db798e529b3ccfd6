"""One pass over a shard, for all files about it."""

from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from wdsflow.scan.evidence import ScanOptions, ShardEvidence
from wdsflow.scan.runs import RunCollector
from wdsflow.scan.scanner import Scanner
from wdsflow.shards.samples.grouping import Grouping, group_members
from wdsflow.shards.samples.tar_damage import CUT_AFTER_END, damage_of
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import Source, SourceError
from wdsflow.shards.source.decompress import unpack_command
from wdsflow.shards.source.opening import open_source
from wdsflow.shards.tar.walk import Member, MemberBatch, Walk

from .sample_rows import SampleRows

# Names of fields of a shard that are kept, the most frequent ones.
_FIELDS = 1000

_ALL = Grouping(reads_past_stop=True)


@dataclass
class ShardFacts:
    """Facts about a shard, from one pass. All values are plain ones, for JSON."""

    url: str
    samples: int = 0
    # Samples as Energon counts them: base names with dots in them may have merged some.
    by_energon: int = 0
    # In order of their names.
    fields: list[str] = field(default_factory=list)
    # Why it is not indexed.
    damage: list[str] = field(default_factory=list)
    # The command that unpacks a damaged compressed stream in which no byte can be trusted.
    unpack: str = ""
    # Why it cannot have an index of offsets.
    obstacle: str = ""


class ShardContents:
    """Where the samples of a shard begin, in the order of the tar, and their rows for a database.

    Memory is 8 bytes a sample, however many members they have.

    Args:
        rows: gets the rows; None if no database is made.
    """

    def __init__(self, rows: SampleRows | None) -> None:
        # Offset of the first header of each sample.
        self.starts = array("Q")
        # Offset after the last member.
        self.end = 0
        self.rows = rows


def pass_over(url: Shard, rows: SampleRows | None) -> tuple[ShardFacts, ShardContents]:
    """Read the headers of a shard once.

    Args:
        url: the shard.
        rows: gets the rows of a database; None if no database is made.
    """
    facts, contents = ShardFacts(url), ShardContents(rows)
    shard = ShardEvidence(url)
    try:
        with open_source(url) as source:
            walk = Walk(source)
            _walk_over(walk, shard, facts, contents)
            if source.compression:
                facts.obstacle = f"it is compressed ({source.compression}): members have no place in the stored file"
            facts.unpack = _unpack(source)
        facts.damage = _damage(walk)
    except OSError as error:
        facts.damage = [error.detail if isinstance(error, SourceError) else str(error)]
    facts.samples = shard.samples + shard.samples_after_stop
    return facts, contents


def _unpack(source: Source) -> str:
    """Return the command that unpacks a shard, or "" if none is needed.

    Only a local compressed shard of which no byte can be trusted needs one.
    """
    path = source.url.path
    if source.fault is None or source.fault.trusted or path is None or not source.compression:
        return ""
    return unpack_command(path, source.compression)


def _damage(walk: Walk) -> list[str]:
    """Return why the shard is not indexed. A cut after the end mark loses nothing."""
    damage = [text for text in damage_of(walk) if CUT_AFTER_END not in text]
    second = walk.seen.get("tar.second-archive")
    if walk.ended and not damage and second is not None:
        damage = [f"at byte {second.offset:,} a second archive follows, which no reader reads"]
    return damage


def _walk_over(
    walk: Walk, shard: ShardEvidence, facts: ShardFacts, contents: ShardContents
) -> None:
    scan = Scanner(shard, ScanOptions("names"), RunCollector())
    fields: Counter[str] = Counter()

    def batches() -> Iterator[MemberBatch]:
        for batch in walk:
            scan.batch(batch, walk)
            contents.end = max(contents.end, Member(*batch.rows[-1]).end)
            yield batch

    for begins, key, suffix, (_, size, data, header, _) in group_members(batches(), _ALL):
        fields[suffix] += 1
        if begins:
            contents.starts.append(header)
        if contents.rows is not None:
            if begins:
                contents.rows.begin(key, header)
            contents.rows.add_member(suffix, data, size)
    facts.by_energon = len(contents.starts)
    if contents.rows is not None:
        contents.rows.finish(contents.end)
    scan.finish(walk)
    facts.fields = sorted(name for name, _ in fields.most_common(_FIELDS))
