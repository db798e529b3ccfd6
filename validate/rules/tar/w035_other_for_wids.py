from collections.abc import Iterator

from wdsflow.readers.base import Reader
from wdsflow.scan.evidence import Shape, ShardEvidence
from wdsflow.scan.through_wids import MIXED
from wdsflow.text.escape import escape
from wdsflow.text.words import how_many

from ...finding import Finding
from ..kit.base import Context, Rule


class OtherForWids(Rule):
    """wids finds other samples in the shard than readers in Python, or cannot open it.

    What: wids has a tar parser of its own. It reads the 100 bytes of a name that the header holds: no PAX records, no
    GNU long names, no prefix of USTAR. These bytes must be UTF-8, and sizes octal. It tells members apart by name, but
    finds their contents by position.

    Why it matters: a name that is cut has no extension, or that of another field, so that its sample is lost. One that is
    cut inside a letter, or a size in base 256, ends the run when the shard is opened. After a name that occurs twice,
    samples get the contents of other members, or an AssertionError without a text.

    In practice: long names in UTF-8, such as titles or urls, where a letter takes several bytes; shards compressed with
    gzip; tars to which ``tar -r`` appended a file that was there already.

    Fix: ``wdsflow repair SHARD -o repaired`` writes plain headers, and each name once. It keeps names that are longer
    than 100 bytes: for these, write the shards again with shorter keys.
    """

    code = "W035"
    severity = "error"
    repair_note = "writes plain headers, and each name once"

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield one finding for each shard of which wids loses samples that other readers have."""
        for reader in context.readers:
            for shard in context.evidence.shards if reader.name == "wids" else ():
                own = reader.as_read(shard)
                if own is not shard and (what := _trouble(reader, shard, own)):
                    yield self._finding(reader, shard, own, what)

    def _finding(self, reader: Reader, shard: ShardEvidence, own: ShardEvidence, what: str) -> Finding:
        kept = shard.tally("name.long").count  # a repair keeps long names
        if kept:
            what += "; write the shards again with keys of fewer bytes"
        place = next((item for item in own.runs.counted() if _is_mixed(item.shape)), None)
        return Finding(
            code=self.code,
            severity=self.severity,
            message=what,
            shard=shard.url,
            key=place.key or None if place else None,
            offset=place.offset if place else own.stop.offset if own.error else None,
            count=1,
            readers=(reader.name,),
            repair=None if kept else self.repair(shard.url),
        )


def _trouble(reader: Reader, shard: ShardEvidence, own: ShardEvidence) -> str:
    """Return what wids makes of the shard, "" if it has the samples that others have."""
    title = reader.title.split(" (")[0]
    if own.error is not None:
        return f"{title} cannot open the shard: {escape(own.error_detail)}"
    if any(_is_mixed(item.shape) for item in own.runs.counted()):
        return f"{title} takes members of other samples after a name that occurs twice"
    lost = _usable(reader, shard) - _usable(reader, own)
    if lost > 0 and shard.tally("name.long").count:
        return f"{title} does not find {how_many(lost, 'sample')}: it reads no names in extended headers, only 100 bytes of each"
    return ""


def _is_mixed(shape: Shape) -> bool:
    return any(part.status == MIXED for part in shape)


def _usable(reader: Reader, shard: ShardEvidence) -> int:
    return sum(item.count for item in shard.runs.counted() if reader.fates(item.shape)[0].kind == "usable")
