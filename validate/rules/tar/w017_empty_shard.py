from wdsflow.scan.evidence import ShardEvidence, Tally

from ...finding import Severity
from ..kit.base import Context, TallyRule


class EmptyShard(TallyRule):
    """The shard holds no sample.

    What: a valid archive without any member that readers take, or a file of zeros.

    Why it matters: reading it gives nothing and no error. A worker that gets only such shards never yields a batch.
    PyTorch's loader waits for its workers in turn, so the whole run hangs. An empty shard also counts when OpenCLIP
    requires at least one shard per worker.

    In practice: a filter that kept nothing, a ShardWriter that opens its first file before the first sample, a file
    that was allocated but never written.

    Fix: leave the shard out of ``--train-data``. To find the empty ones: ``wdsflow inspect URL...``
    """

    code = "W017"
    severity = "warning"
    requires = ("W001", "W002", "W003", "W005", "W020")
    counts_samples = False

    def seen(self, shard: ShardEvidence) -> Tally:
        return Tally() if shard.samples or shard.error else Tally(1)

    def severity_in(self, context: Context, shard: ShardEvidence) -> Severity:
        return "warning" if context.evidence.samples and not context.unindexed(shard) else "error"

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        return "the shard has no sample: a worker that gets only such shards never yields a batch"
