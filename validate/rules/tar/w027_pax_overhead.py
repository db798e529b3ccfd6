from wdsflow.scan.evidence import ShardEvidence
from wdsflow.text.words import how_many

from ...finding import Severity
from ..kit.base import Context, TallyRule


class PaxOverhead(TallyRule):
    """Extended headers waste 1 KiB per member.

    What: each member has a PAX header that holds only a time with fractions of a second.

    Why it matters: two more blocks per member to download, store and parse. A caption of 50 bytes takes 2 KiB instead
    of 1 KiB; for shards of small thumbnails a tenth of all bytes can be overhead.

    In practice: webdataset's TarWriter with its default ``mtime`` (a float), tarfile's default format since Python
    3.8 (webdataset#228: "data gets larger").

    Fix: ``wdsflow repair SHARD -o repaired`` writes plain USTAR headers. When packing: ``TarWriter(..., mtime=0)``,
    or ``tar --format=ustar``
    """

    code = "W027"
    severity = "warning"
    tallies = ("tar.pax-overhead",)
    counts_samples = False
    repair_note = "writes plain USTAR headers"

    def severity_in(self, context: Context, shard: ShardEvidence) -> Severity:
        return "warning" if _wasted(shard) >= 0.05 else "info"

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        share = f", {_wasted(shard):.0%} of the shard" if shard.size else ""
        return (
            f"{how_many(count, 'member has', 'members have')} an extended header only for a time: {count:,} KiB{share}"
        )


def _wasted(shard: ShardEvidence) -> float:
    """Return the share of the shard's bytes that extended headers take."""
    stored = shard.size if shard.compression is None else None
    size = stored or shard.member_bytes + 1024 * shard.members
    return shard.tally("tar.pax-overhead").count * 1024 / max(size, 1)
