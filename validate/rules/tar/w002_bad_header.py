from wdsflow.scan.evidence import ShardEvidence
from wdsflow.text.words import how_many

from ...finding import Repair
from ..kit.base import TallyRule
from ..kit.rule_commands import repair


class DamagedHeader(TallyRule):
    """A damaged header hides the rest of the shard.

    What: a member's 512-byte header has a wrong checksum or unreadable numbers. Sound members may follow; the
    message says how many were found behind it.

    Why it hurts: Python's tarfile in stream mode, which OpenCLIP, webdataset and Hugging Face datasets use, takes
    a bad header after the first member for the end of the archive. There is no exception and no warning: all
    samples behind it are never seen, in any epoch. OpenCLIP still counts them if ``--train-num-samples`` or
    sizes.json does, so that the epochs repeat the rest.

    In the wild: bad disks or memory, interrupted and resumed downloads, two jobs writing one file. Nobody notices;
    the loss is the only trace.

    Cure: copy the shard again if its source still exists. If not, all sound members can be saved:
    ``wdsflow repair SHARD -o repaired``
    """

    code = "W002"
    severity = "error"
    tallies = ("tar.bad-header",)
    counts_samples = False

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        place = f" ({detail})" if detail else ""
        lost = behind(shard)
        return f"a damaged header ends the shard for every reader{place}: {lost or 'no sound member follows'}"

    def repair(self, *urls: str) -> Repair:
        return repair(urls, note="saves the members on both sides of the damage")


def behind(shard: ShardEvidence) -> str:
    """Say what readers never reach: "12 members (4 samples) behind it are never read"."""
    if not shard.beyond:
        return ""
    samples = f" ({how_many(shard.unreached, 'sample')})" if shard.unreached else ""
    verb = "is" if shard.beyond == 1 else "are"
    return f"{how_many(shard.beyond, 'sound member')}{samples} behind it {verb} never read"
