from wdsflow.scan.evidence import ShardEvidence
from wdsflow.text.words import how_many

from ..kit.base import TallyRule


class LongRun(TallyRule):
    """More than 1,000 neighbouring members share one key.

    What: one sample has over 1,000 members.

    Why it matters: readers hold a sample in memory as a whole until its key changes. If the members are really many
    samples whose names merge at the first dot, all but one of them are lost.

    In practice: names that begin with a common part before the first dot (``img.000001.jpg``), frames of a video
    stored one by one.

    Fix: give each sample a key without dots when packing: ``key = name.replace(".", "_")``
    """

    code = "W031"
    severity = "warning"
    requires = ("W010",)
    tallies = ("key.long-run",)

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        return f"{how_many(count, 'key has', 'keys have')} more than 1,000 members in a row: readers hold them in memory as one sample"
