from wdsflow.scan.evidence import ShardEvidence
from wdsflow.text.words import how_many

from ...finding import Severity
from ..kit.base import Context, TallyRule, first_seen


class MetaMembers(TallyRule):
    """Some readers read members with names such as __info__, others skip them.

    What: files or folders with names of the form ``__name__``.

    Why it matters: webdataset and OpenCLIP skip them as metadata. Ray Data, DataChain and others do not know this
    convention and take them for samples. Between the members of a sample, they split it, and Ray Data then ends with an
    exception.

    In practice: notes about a shard stored inside it.

    Fix: keep such files next to the shards, not in them: ``tar --sort=name --format=ustar --exclude '__*__' -cf SHARD
    -C FOLDER .``
    """

    code = "W032"
    severity = "info"
    tallies = ("name.meta",)
    counts_samples = False

    def severity_in(self, context: Context, shard: ShardEvidence) -> Severity:
        return "error" if _parted(context, shard) else self.severity

    def hurts(self, context: Context, shard: ShardEvidence) -> tuple[str, ...]:
        return _parted(context, shard) or context.names()

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        return (
            f"{how_many(count, 'member')} named like metadata{first_seen(detail)}: webdataset skips that, others do not"
        )


def _parted(context: Context, shard: ShardEvidence) -> tuple[str, ...]:
    """Return the readers that end only because such members split samples."""
    if not shard.tally("key.again-junk").count or shard.tally("key.again").count:
        return ()
    crashes = {reader.name: reader.at_shard(shard) for reader in context.readers}
    return tuple(name for name, crash in crashes.items() if crash is not None and crash.reason == "key-again")
