from collections import Counter
from collections.abc import Iterator

from wdsflow.text.escape import escape

from ...finding import Finding
from ..kit.base import Context, Rule

_SHARE = 0.05
_LEAST = 20
_NONE = ("", "nan", "none", "null")  # F112 and F115 report these


class FrequentCaption(Rule):
    """Many images have the same caption.

    What: a single caption makes up at least 5 % of all captions, and occurs at least 20 times. The count is a lower
    bound.

    Why it matters: the contrastive loss takes every other pair of a batch for a mismatch. If one caption in 20 is the
    same, a batch of 1,000 has 50 matching pairs that are pushed apart. The loss stays high and the model inaccurate.

    In practice: boilerplate ("Buy now", "Image may contain"), class labels as captions, a captioner stuck in a phrase.

    Fix: leave the caption out before packing: ``if text == "...": continue``. For class labels, vary the sentence or
    use a loss made for labels.
    """

    code = "F124"
    severity = "warning"

    def check(self, context: Context) -> Iterator[Finding]:
        counts: Counter[str] = Counter()
        for shard in context.evidence.shards:
            counts.update(
                {text: count for text, count in shard.captions.frequent.items() if text.strip().lower() not in _NONE}
            )
        captions = sum(shard.captions.count for shard in context.evidence.shards)
        for text, count in counts.most_common(3):
            if count < max(_LEAST, _SHARE * captions):
                return
            shard = next(shard for shard in context.evidence.shards if text in shard.captions.frequent)
            yield Finding(
                code=self.code,
                severity=self.severity,
                message=f'at least {count:,} of {captions:,} captions are "{escape(text, 60)}": '
                "equal captions in a batch count as mismatches",
                shard=shard.url,
                count=count,
                rate=count / captions,
                readers=context.names(),
            )
