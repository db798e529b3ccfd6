from collections import Counter

from wdsflow.readers.base import Reader
from wdsflow.scan.evidence import Shape, ShardEvidence
from wdsflow.text.words import how_many

from ...finding import Repair
from ..kit.base import Context
from ..kit.rule_commands import repair
from ..kit.rule_loss import LossRule
from ..kit.shape_rule import RuleLoss, crashes, folded


class DuplicateMember(LossRule):
    """A sample has two members with the same field name.

    What: ``a.jpg a.txt a.jpg``, or ``a.JPG`` and ``a.jpg``: field names are compared in lower case.

    Why it matters: webdataset raises "duplicate file name in tar file"; without a handler the run ends, with one the
    second member is dropped. OpenCLIP begins a new sample at the second member. This sample lacks the other field, and
    is silently dropped with all members that follow it.

    In practice: ``tar -r`` or ``tar -A`` used to update a shard, keys that are not unique inside a shard, a writer
    that was restarted (webdataset#157, #205, #286).

    Fix: ``wdsflow repair SHARD -o repaired`` keeps the first member of each name. If the second members are other
    samples, give them unique keys when packing.
    """

    code = "W007"
    requires = ("W010",)  # a.v1.jpg and a.v2.jpg share the key a
    tallies = ("key.duplicate-field",)

    def loss(self, context: Context, reader: Reader, shard: ShardEvidence, count: int) -> RuleLoss:
        samples, crash = 0, False
        reader = context.bound(reader)
        for item in folded(context, reader, shard):
            single = _single(item.shape)
            if single != item.shape:
                dropped = sum(fate.kind == "dropped" for fate in context.fates(reader, item.shape))
                before = sum(fate.kind == "dropped" for fate in context.fates(reader, single))
                samples += max(dropped - before, 0) * item.count
                crash = crash or (crashes(context, reader, item.shape) and not crashes(context, reader, single))
        return RuleLoss(samples, crash)

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        return f"{how_many(count, 'sample has', 'samples have')} a field name twice{_twice(shard)}"

    def repair(self, *urls: str) -> Repair:
        return repair(urls, safe=False, note="keeps the first member of each name")


def _single(shape: Shape) -> Shape:
    first = {part.suffix.lower(): part for part in reversed(shape)}
    return tuple(part for part in shape if first[part.suffix.lower()] is part)


def _twice(shard: ShardEvidence) -> str:
    for item in shard.runs.counted():
        names = Counter(part.suffix.lower() for part in item.shape)
        double = [name for name, count in names.items() if count > 1]
        if double:
            return f" ({double[0]})"
    return ""
