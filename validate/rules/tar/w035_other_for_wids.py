from collections.abc import Iterator

from wdsflow.readers.base import Reader
from wdsflow.scan.evidence import ShardEvidence, Tally
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
        """Yield one finding for each shard that wids cannot open, or in which it finds other members."""
        for reader in context.readers:
            for shard in context.evidence.shards if reader.name == "wids" else ():
                if shard.is_whole and shard.samples and (found := _trouble(reader, shard)):
                    yield self._finding(reader, shard, *found)

    def _finding(self, reader: Reader, shard: ShardEvidence, what: str, place: Tally) -> Finding:
        kept = shard.tally("name.long").count  # a repair keeps long names
        if kept:
            what += "; write the shards again with keys of fewer bytes"
        return Finding(
            code=self.code,
            severity=self.severity,
            message=what,
            shard=shard.url,
            key=place.key,
            offset=place.offset,
            count=1,
            readers=(reader.name,),
            repair=None if kept else self.repair(shard.url),
        )


def _trouble(reader: Reader, shard: ShardEvidence) -> tuple[str, Tally] | None:
    """Return what wids makes of the shard, and where; None if it has the samples that others have."""
    title = reader.title.split(" (")[0]
    if shard.compression is not None:
        return f"{title} cannot open the shard: it is compressed ({shard.compression})", Tally(offset=0)
    if (place := shard.tally("key.duplicate-field")).count:
        return f"{title} takes members of other samples after a name that occurs twice", place
    if (place := shard.tally("name.long")).count:
        text = f"{title} does not read the names of {how_many(place.count, 'member')}: it reads no names in extended headers"
        return f"{text}, only 100 bytes of each", place
    return None
