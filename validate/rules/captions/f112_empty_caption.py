from wdsflow.scan.content.field_kinds import kind_of
from wdsflow.scan.evidence import BLANK, EMPTY, Part, ShardEvidence
from wdsflow.text.words import how_many

from ...finding import Repair
from ..kit.rule_commands import leave_out
from ..kit.rule_loss import LossRule
from ..kit.shape_rule import fix_status


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

    def fixed_part(self, part: Part) -> Part:
        return _FIX(part)

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        return f"{how_many(count, 'caption')} {'is' if count == 1 else 'are'} empty"

    def repair(self, *urls: str) -> Repair:
        return leave_out(urls)


_FIX = fix_status(EMPTY, BLANK, when=lambda suffix: kind_of(suffix) in ("text", "opaque"))
