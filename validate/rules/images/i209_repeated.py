from collections import Counter
from collections.abc import Iterator

from wdsflow.text.escape import escape
from wdsflow.text.words import how_many

from ...finding import Finding
from ..keys.w008_shared_keys import shared_sketches
from ..kit.base import Context, Rule
from ..kit.rule_commands import keep

_SHARE = 0.001
_LEAST = 10


class Repeated(Rule):
    """The same image occurs many times.

    What: one image, byte for byte, is in at least ten samples and one in a thousand of all; or two shards share images.
    Found only at ``--level full``; the counts are lower bounds.

    Why it matters: the same picture with many captions teaches the model to ignore captions. Inside a batch, equal
    pictures count as mismatches. Shards that share images count them twice, and may be the old and the new export in
    one folder.

    In practice: "image not available" pictures that servers send for dead links, thousands of times
    (Recap-DataComp-1B#11); the same url with several captions (img2dataset#244).

    Fix: ``wdsflow filter SHARD -o filtered --where 'not duplicate'`` keeps the first sample of those with the same
    image. A placeholder remains once.
    """

    code = "I209"
    severity = "warning"

    def check(self, context: Context) -> Iterator[Finding]:
        counts: Counter[int] = Counter()
        for shard in context.evidence.shards:
            counts.update(shard.frequent_images)
        images = sum(shard.images.count for shard in context.evidence.shards)
        often = [(value, count) for value, count in counts.most_common() if count >= max(_LEAST, _SHARE * images)]
        if often:
            value, count = often[0]
            also = f", {how_many(len(often) - 1, 'other')} in fewer" if len(often) > 1 else ""
            first = next(shard for shard in context.evidence.shards if value in shard.frequent_images)
            yield Finding(
                code=self.code,
                severity=self.severity,
                message=f"one image is in at least {count:,} of {how_many(images, 'sample')}{also}: placeholders?",
                shard=first.url,
                count=sum(count for _, count in often),
                rate=min(sum(count for _, count in often) / images, 1.0) if images else None,
                readers=context.names(),
                repair=keep(context.targets(), "not duplicate", "keeps the first sample of each image"),
            )
        for earlier, later in list(shared_sketches(context, "image_sketch"))[:3]:
            yield Finding(
                code=self.code,
                severity=self.severity,
                message=f"shares images with {escape(earlier.url.rpartition('/')[2])}: at least one in eight",
                shard=later.url,
                readers=context.names(),
                repair=keep(context.targets(), "not duplicate", "keeps the first sample of each image"),
            )
