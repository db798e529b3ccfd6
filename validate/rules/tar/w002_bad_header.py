from wdsflow.scan.evidence import ShardEvidence
from wdsflow.text.words import how_many

from ..kit.base import TallyRule


class DamagedHeader(TallyRule):
    """A damaged header hides the rest of the shard.

    What: a member's 512-byte header has a wrong checksum or unreadable numbers. Valid members may follow; the message
    says how many were found.

    Why it matters: Python's tarfile in stream mode, which OpenCLIP, webdataset and Hugging Face datasets use, takes a
    bad header after the first member for the end of the archive. There is no exception and no warning: the samples
    after it are never seen, in any epoch. OpenCLIP still counts them if ``--train-num-samples`` or sizes.json does, and
    repeats the rest in each epoch.

    In practice: bad disks or memory, interrupted and resumed downloads, two jobs writing one file. Nobody notices; the
    missing samples are the only trace.

    Fix: copy the shard again if its source still exists. If not, all valid members can be recovered: ``wdsflow repair
    SHARD -o repaired``
    """

    code = "W002"
    severity = "error"
    tallies = ("tar.bad-header",)
    counts_samples = False
    repair_note = "recovers the members on both sides of the damage"

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        place = f" ({detail})" if detail else ""
        lost = behind(shard)
        return f"a damaged header ends the shard for every reader{place}: {lost or 'no valid member follows'}"


def behind(shard: ShardEvidence) -> str:
    """Return what readers never reach: "12 valid members (4 samples) after it are never read"."""
    if not shard.beyond:
        return ""
    samples = f" ({how_many(shard.unreached, 'sample')})" if shard.unreached else ""
    verb = "is" if shard.beyond == 1 else "are"
    return f"{how_many(shard.beyond, 'valid member')}{samples} after it {verb} never read"
