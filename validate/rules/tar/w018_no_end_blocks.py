from wdsflow.scan.evidence import ShardEvidence

from ...finding import Severity
from ..kit.base import Context, TallyRule
from ..kit.missing_fields import missing_at_end


class NoEndBlocks(TallyRule):
    """The end mark of the archive is missing.

    What: the file ends after a complete member, without the two blocks of zeros that end a tar. The last sample is
    compared with the others: if it lacks fields that most have, the shard was cut, and the finding is an error.

    Why it matters: Python's tarfile takes the end of the file for the end of the archive: no reader reports it, whether
    or not samples are missing. An incomplete sample at the end is dropped, or joined with the next shard's first sample
    (W021).

    In practice: a ShardWriter that was not closed because the job was killed (webdataset#32), a copy that stopped at
    a round number of bytes, tools that leave the end mark out.

    Fix: compare the size with the source: ``ls -l SHARD``. ``wdsflow repair SHARD -o repaired`` writes the complete
    members with a proper end.
    """

    code = "W018"
    severity = "warning"
    tallies = ("tar.no-end-blocks",)
    counts_samples = False
    repair_note = "writes a proper end mark; compare with the source first"

    def severity_in(self, context: Context, shard: ShardEvidence) -> Severity:
        indexed = any(reader.keys_once for reader in context.readers)  # leaves such shards out of its index
        return "error" if missing_at_end(shard) or indexed else "warning"

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        missing = missing_at_end(shard)
        if missing:
            return f"no end mark, and the last sample lacks {missing}: the shard was cut, and no reader reports it"
        return "no end mark: if the shard was cut there, no reader reports it; its last sample is complete"
