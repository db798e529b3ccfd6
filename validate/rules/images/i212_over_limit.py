from wdsflow.scan.evidence import BIG, BIG_BAD, ShardEvidence, Tally
from wdsflow.text.words import how_many

from ..kit.base import first_seen
from ..kit.image_rule import ImageLossRule


class OverLimit(ImageLossRule):
    """Images are over the reader's pixel limit.

    What: more pixels than OpenCLIP 4's ``--max-image-pixels`` allows, 25 million by default.

    Why it matters: OpenCLIP 4 drops the sample by its header, without decoding it, with a warning for the first and
    each thousandth. OpenCLIP 3.3 and others have no limit and decode the whole image, which takes seconds (I219).

    In practice: sets of photographs at full resolution lose a large part when moving to OpenCLIP 4.

    Fix: raise the limit with ``--max-image-pixels 100000000`` (OpenCLIP 4; 0 removes it), or shrink the images before
    packing: ``convert a.jpg -resize '2048x2048>' b.jpg``
    """

    code = "I212"
    tallies = ("image.large",)
    statuses = (BIG, BIG_BAD)
    capped = False

    def seen(self, shard: ShardEvidence) -> Tally:
        """Leave out bombs, which I203 reports; only the shapes show a limit below 25 million."""
        tally, bombs = shard.tally("image.large"), shard.tally("image.bomb").count
        large = Tally(tally.count - bombs, tally.key, tally.offset, tally.detail) if tally.count > bombs else Tally()
        over = Tally()
        for item in shard.runs.counted():
            if any(part.status in self.statuses for part in item.shape):
                over.add(item.key, item.offset, count=item.count)
        return large if large.count >= over.count else over

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        return f"{how_many(count, 'image is', 'images are')} very large{first_seen(detail)}"
