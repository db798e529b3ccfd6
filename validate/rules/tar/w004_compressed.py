from wdsflow.scan.evidence import ShardEvidence, Tally

from ...finding import Repair, Severity
from ..kit.base import Context, TallyRule

_NAMES = {"gz": "gzip", "bz2": "bzip2", "xz": "xz", "zst": "Zstandard"}
_BY_TARFILE = ("gz", "bz2", "xz")


class Compressed(TallyRule):
    """The shard is compressed.

    What: the file is a tar inside gzip, bzip2, xz or Zstandard, whatever its name says.

    Why it matters: images are compressed already, so compression saves hardly a byte. But one core has to unpack the
    whole stream in each epoch, and nothing can be read from the middle. Python's tarfile, and therefore OpenCLIP and
    webdataset, reads gzip, bzip2 and xz. It reads Zstandard only from Python 3.14 on; before that the shard is skipped
    as "not a tar". ``--dataset-type auto`` refuses names that do not end in .tar.

    In practice: low GPU use with busy loader processes (webdataset#217); "ValueError: Tried to figure out dataset
    type, but failed for extension gz".

    Fix: ``wdsflow repair SHARD -o repaired`` writes a plain tar; so do ``gunzip SHARD`` and ``zstd -d SHARD``.
    """

    code = "W004"
    severity = "warning"
    counts_samples = False
    repair_note = "writes plain tars"

    def seen(self, shard: ShardEvidence) -> Tally:
        return Tally(1, None, None, shard.compression) if shard.compression else Tally()

    def fix(self, shard: ShardEvidence, tally: Tally) -> Repair | None:
        return None if shard.error or shard.is_distrusted else self.repair(shard.url)

    def severity_in(self, context: Context, shard: ShardEvidence) -> Severity:
        return "error" if _refusing(context, shard) else "warning"

    def hurts(self, context: Context, shard: ShardEvidence) -> tuple[str, ...]:
        return _refusing(context, shard) or context.names()

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        name = _NAMES.get(detail, detail)
        if detail in _BY_TARFILE:
            return f"compressed with {name}: one core unpacks every byte for each pass, and images hardly shrink"
        return f"compressed with {name}, which tarfile reads from Python 3.14 on only: readers skip the shard or fail"


def _refusing(context: Context, shard: ShardEvidence) -> tuple[str, ...]:
    return tuple(reader.name for reader in context.readers if not reader.opens(shard))
