from wdsflow.readers.base import Reader
from wdsflow.scan.evidence import ShardEvidence
from wdsflow.shards.tar.member_names import is_junk
from wdsflow.text.words import how_many

from ..kit.base import Context
from ..kit.rule_loss import LossRule
from ..kit.shape_rule import RuleLoss, folded


class MixedPrefix(LossRule):
    """Some names start with ./ and others do not.

    What: ``./a.jpg`` and ``a.txt`` in one shard.

    Why it matters: the key is the whole path, and ``./a`` is another key than ``a``: the two never pair, for any
    reader. OpenCLIP silently drops both parts.

    In practice: ``tar -rf SHARD a.txt`` onto a shard that was made with ``tar -cf SHARD .``.

    Fix: ``wdsflow repair SHARD -o repaired`` removes the prefix and regroups the members. When packing, name all files
    the same way: ``tar --sort=name --format=ustar -cf SHARD -C FOLDER .``
    """

    code = "W030"
    tallies = ("name.mixed-prefix",)
    counts_samples = False
    repair_note = "removes the prefix"

    def loss(self, context: Context, reader: Reader, shard: ShardEvidence, count: int) -> RuleLoss:
        lost = sum(
            item.count
            for item in folded(context, reader, shard)
            if not context.usable(reader, item.shape) and not is_junk(item.key)
        )
        return RuleLoss(min(lost, count))

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        return f"{how_many(count, 'name differs', 'names differ')} from the others in the prefix ./: a key with it is another key"
