from ..evidence import ShardEvidence
from .base import TallyRule, first_seen, number


class MetaMembers(TallyRule):
    """Members with names such as __info__ are read by some and skipped by others.

    What: names of the form ``__name__``, or folders so called.

    Why it hurts: webdataset and OpenCLIP skip them as metadata. DataChain and other readers do not know this
    convention and take them for samples.

    In the wild: notes about a shard stored inside it.

    Cure: keep such files beside the shards, not in them:
    ``tar --sort=name --format=ustar --exclude '__*__' -cf SHARD -C FOLDER .``
    """

    code = "W032"
    severity = "info"
    tallies = ("name.meta",)
    counts_samples = False

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        return f"{number(count, 'member')} named like metadata{first_seen(detail)}: webdataset skips, others read them"
