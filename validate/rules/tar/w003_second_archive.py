from wdsflow.scan.evidence import ShardEvidence

from ..kit.base import TallyRule
from .w002_bad_header import behind


class SecondArchive(TallyRule):
    """A second archive follows the end mark.

    What: two blocks of zeros end a tar; more members follow them, as after ``cat a.tar b.tar > ab.tar``.

    Why it matters: all readers stop at the first end mark. The second part of the shard is never read, without an
    exception or a warning, but its bytes are still downloaded and stored.

    In practice: shards merged with cat, a ``pipe:`` url over several files such as ``pipe:cat *.tar``, tars that a
    job appended to after a restart.

    Fix: ``wdsflow repair SHARD -o repaired`` writes all members into one archive. GNU tar can read them too:
    ``tar --ignore-zeros -tf SHARD``.
    """

    code = "W003"
    severity = "error"
    tallies = ("tar.second-archive",)
    counts_samples = False
    repair_note = "writes the members of all archives into one"

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        return f"a second archive follows the end mark: {behind(shard) or 'readers never reach it'}"
