from wdsflow.scan.evidence import ShardEvidence

from ..kit.base import TallyRule, first_seen


class UnsafePath(TallyRule):
    """Member names point outside the folder in which they are unpacked.

    What: absolute paths (``/etc/x.txt``) or a ``..`` component (``../../x.txt``).

    Why it matters: readers that stream never write to disk, and OpenCLIP trains on such shards normally. But careless
    tools write outside of the target folder when they unpack the tar: Python's ``extractall`` without a filter (the
    default before 3.14) does. In a data set from a stranger it may be an attack.

    In practice: ``tar -P``, archives made to attack (CVE-2007-4559).

    Fix: do not unpack the shard with ``extractall`` without ``filter="data"``.
    ``wdsflow repair SHARD -o repaired`` makes the names relative.
    """

    code = "W014"
    severity = "warning"
    tallies = ("name.absolute", "name.parent")
    counts_samples = False
    repair_note = "makes paths relative"

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        verb = "name is an absolute path or has" if count == 1 else "names are absolute paths or have"
        return f"{count:,} {verb} a .. component{first_seen(detail)}: unsafe to unpack"
