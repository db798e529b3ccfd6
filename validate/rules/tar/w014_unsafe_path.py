from wdsflow.scan.evidence import ShardEvidence

from ...finding import Repair
from ..kit.base import TallyRule, first_seen
from ..kit.rule_commands import repair


class UnsafePath(TallyRule):
    """Member names leave the folder they are unpacked in.

    What: absolute paths (``/etc/x.txt``) or a ``..`` component (``../../x.txt``).

    Why it hurts: readers that stream never write to disk, and OpenCLIP trains from such shards as from others. But
    whoever unpacks the tar with a careless tool writes outside of the target folder: Python's ``extractall`` without
    a filter (the default before 3.14) does. In a data set from a stranger it is a sign of intent.

    In the wild: ``tar -P``, archives made to attack (CVE-2007-4559).

    Cure: do not unpack the shard with ``extractall`` without ``filter="data"``.
    ``wdsflow repair SHARD -o repaired`` makes the names relative.
    """

    code = "W014"
    severity = "warning"
    tallies = ("name.absolute", "name.parent")
    counts_samples = False

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        verb = "name is an absolute path or has" if count == 1 else "names are absolute paths or have"
        return f"{count:,} {verb} a .. component{first_seen(detail)}: unsafe to unpack"

    def repair(self, *urls: str) -> Repair:
        return repair(urls, note="makes paths relative")
