from wdsflow.scan.evidence import ShardEvidence

from ...finding import Repair
from ..kit.base import TallyRule
from ..kit.rule_commands import repair


class TrailingBytes(TallyRule):
    """Bytes that are no tar lie behind the end mark.

    What: after the two blocks of zeros come bytes that are neither zeros nor a header.

    Why it hurts: readers stop at the end mark, so that training does not see them. They may be the rest of a longer
    file that was overwritten by a shorter one, or a damaged second archive: then samples are missing.

    In the wild: a shard written over an old one in place, a log line printed into a ``pipe:`` stream, two writers on
    one file.

    Cure: ``wdsflow repair SHARD -o repaired`` keeps what lies before the end mark, and sound members behind it.
    """

    code = "W019"
    severity = "warning"
    requires = ("W003",)
    tallies = ("tar.trailing-data",)
    counts_samples = False

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        what = f" ({detail})" if detail else ""
        return f"bytes that are no tar follow the end mark{what}: readers ignore them"

    def repair(self, *urls: str) -> Repair:
        return repair(urls)
