from wdsflow.scan.evidence import ShardEvidence
from wdsflow.text.words import how_many

from ..kit.base import TallyRule, first_seen


class SpecialFiles(TallyRule):
    """Devices, fifos or members of an unknown type are skipped.

    What: entries that are neither files, folders nor links.

    Why it matters: readers skip them, so training is not affected. Whoever unpacks the tar as root creates the devices.
    They do not belong in a data set, and may be a sign of damage or an attack.

    In practice: tars of a root file system, bytes changed by a bad disk in the type field of a header.

    Fix: pack again from the plain files: ``tar --sort=name --format=ustar -cf SHARD -C FOLDER .``
    """

    code = "W026"
    severity = "warning"
    tallies = ("tar.special",)
    counts_samples = False

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        return f"{how_many(count, 'member is', 'members are')} not a file, folder or link{first_seen(detail)}: readers skip them"
