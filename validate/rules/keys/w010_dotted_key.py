from functools import partial

from wdsflow.readers.base import Reader
from wdsflow.scan.evidence import Part, ShardEvidence
from wdsflow.scan.shapes import merged
from wdsflow.text.words import how_many

from ..kit.base import Context
from ..kit.rule_loss import LossRule
from ..kit.shape_rule import RuleLoss, folded, sound
from ..kit.unusual_names import fold, is_wild, undotted


class DottedKey(LossRule):
    """Dots inside base names cut keys short.

    What: the key ends at the first dot of the last path component, and the field is the rest. ``photo 2.0 (x).jpg`` is
    key ``photo 2`` with the field ``0 (x).jpg``, which no reader needs.

    Why it matters: OpenCLIP needs a field that is exactly ``jpg``, and silently drops the sample. Names that share the
    part before the first dot merge: ``img.v1.jpg img.v2.jpg`` is one sample ``img`` with two odd fields. If all names
    have such dots, no sample is left and training hangs.

    In practice: "didn't find ['mp3'] in ['__key__', '__url__', '0 (clean version).mp3']" (webdataset#237, #288);
    file names with versions, dates, host names or "e.g." in them (datasets#6880, #7144).

    Fix: ``wdsflow repair SHARD -o repaired`` replaces the dots in keys with underscores. When packing: ``key =
    name.replace(".", "_")``
    """

    code = "W010"
    requires = ("W012", "W022")  # the field of folder/._a.jpg is _a.jpg
    tallies = ("name.dotted",)
    repair_note = "replaces dots inside keys with underscores"

    def loss(self, context: Context, reader: Reader, shard: ShardEvidence, count: int) -> RuleLoss:
        """Count each run, and the samples that are merged into it."""
        lost = 0
        for item in reader.runs(shard).counted():
            shape = fold(shard, item.shape)
            fixed = tuple(undotted(shard, part) for part in shape)
            if context.usable(reader, sound(fixed)) > context.usable(reader, sound(shape)):
                lost += item.count * (1 + merged(item.shape, partial(is_wild, shard)))
        if not lost:
            # Image and caption of one sample may be in two runs; together they would be one sample.
            lost = self._parted(context, reader, shard)
        return RuleLoss(lost)

    def _parted(self, context: Context, reader: Reader, shard: ShardEvidence) -> int:
        runs = [
            item
            for item in folded(context, reader, shard)
            if any(undotted(shard, part) is not part for part in item.shape)
        ]
        parts: tuple[Part, ...] = tuple({undotted(shard, part): None for item in runs for part in item.shape})
        if context.usable(reader, sound(parts)) and not any(context.usable(reader, item.shape) for item in runs):
            return sum(item.count for item in runs)
        return 0

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        example = f', such as "{detail}"' if detail else ""
        return f"{how_many(count, 'member has', 'members have')} a dot inside the base name and therefore an odd field name{example}"
