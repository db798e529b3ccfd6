from wdsflow.scan.evidence import ShardEvidence, Tally

from ...finding import Severity
from ..kit.base import Context, TallyRule


class EmptyShard(TallyRule):
    """The shard holds no sample.

    What: a valid archive without any member that readers take, or a file of zeros.

    Why it hurts: reading it gives nothing and no error. A worker that is dealt only such shards never yields a batch,
    and as PyTorch's loader waits for its workers in turn, the whole run waits with it, forever. It counts as a shard
    where OpenCLIP asks for at least one shard a worker.

    In the wild: a filter that let nothing through, a ShardWriter that opens its first file before the first sample
    comes, a file that was allocated but never written.

    Cure: leave the shard out of ``--train-data``. To find the empty ones: ``wdsflow inspect URL...``
    """

    code = "W017"
    severity = "warning"
    requires = ("W001", "W002", "W003", "W005", "W020")
    counts_samples = False

    def seen(self, shard: ShardEvidence) -> Tally:
        return Tally() if shard.samples or shard.error else Tally(1)

    def severity_in(self, context: Context, shard: ShardEvidence) -> Severity:
        return "warning" if context.evidence.samples else "error"

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        return "no sample in it: a worker that gets only such shards never yields a batch"
