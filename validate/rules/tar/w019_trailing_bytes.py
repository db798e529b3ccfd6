from wdsflow.scan.evidence import ShardEvidence

from ..kit.base import TallyRule


class TrailingBytes(TallyRule):
    """Bytes after the end mark are not a tar.

    What: the two blocks of zeros are followed by bytes that are neither zeros nor a header.

    Why it matters: readers stop at the end mark, so training does not see these bytes. They may be the rest of a longer
    file that was overwritten by a shorter one, or a damaged second archive; in that case samples are missing.

    In practice: a shard written over an old one in place, a log line printed into a ``pipe:`` stream, two writers on
    one file.

    Fix: ``wdsflow repair SHARD -o repaired`` keeps the members before the end mark, and valid members after it.
    """

    code = "W019"
    severity = "warning"
    requires = ("W003",)
    tallies = ("tar.trailing-data",)
    counts_samples = False
    repair_note = ""

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        what = f" ({detail})" if detail else ""
        return f"bytes that are not a tar follow the end mark{what}: readers ignore them"
