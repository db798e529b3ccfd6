from wdsflow.scan.evidence import ShardEvidence
from wdsflow.text.words import how_many

from ...finding import Severity
from ..kit.base import Context, TallyRule, first_seen


class Sparse(TallyRule):
    """Sparse members cannot be read by offset.

    What: members stored without their runs of zeros (``tar --sparse``). wdsflow does not read their contents either: its
    commands leave such samples out, as they do with damage.

    Why it matters: tarfile, and therefore OpenCLIP and webdataset, fills the holes again. Readers that take bytes by
    offset and size from an index (DALI, wids, Energon, webshart) get shifted contents and fail to decode them.

    In practice: ``tar -S`` in backup scripts.

    Fix: pack again without ``--sparse``: ``tar --sort=name --format=ustar -cf SHARD -C FOLDER .``
    """

    code = "W025"
    severity = "info"
    tallies = ("tar.sparse",)
    counts_samples = False

    def severity_in(self, context: Context, shard: ShardEvidence) -> Severity:
        """Return "error" if a chosen reader ends with an exception."""
        return "error" if context.unindexed(shard) else self.severity

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        return f"{how_many(count, 'sparse member')}{first_seen(detail)}: readers with an index get shifted contents"
