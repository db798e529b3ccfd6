from wdsflow.scan.evidence import BLANK, EMPTY, ShardEvidence
from wdsflow.text.words import how_many

from ..kit.rule_loss import LossRule


class EmptyCaption(LossRule):
    """Captions are empty.

    What: text members that are empty or only white space.

    Why it matters: OpenCLIP 3.3 trains on them: the caption is the start and end token, the same for all such images,
    which pulls these images together. OpenCLIP 4 drops the samples silently.

    In practice: img2dataset writes an empty .txt if the table has no caption (img2dataset#46); captioners that failed
    (SimpleTuner#1100).

    Fix: ``wdsflow repair SHARD -o repaired --drop-bad`` leaves these samples out. OpenCLIP 4 skips them by itself.
    """

    code = "F112"
    harmless = "warning"
    tallies = ("text.empty", "text.blank")
    statuses = (EMPTY, BLANK)
    kinds = ("text", "opaque")
    drops_bad = True

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        return f"{how_many(count, 'caption is', 'captions are')} empty"
