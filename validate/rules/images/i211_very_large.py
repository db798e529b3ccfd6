from wdsflow.scan.evidence import ShardEvidence
from wdsflow.text.words import how_many

from ..kit.base import TallyRule, first_seen


class VeryLarge(TallyRule):
    """Images of over 89 megapixels can exhaust memory.

    What: between 89 and 178 megapixels, by the image's own header.

    Why it matters: Pillow warns (DecompressionBombWarning) and decodes them: 0.27 to 0.54 GB for each in RGB, in every
    worker that meets one, plus the transform's copies. Several at once exhaust a worker's memory: "DataLoader worker
    (pid ...) is killed by signal: Killed". The whole batch waits while they are decoded.

    In practice: scans, satellite pictures, posters.

    Fix: shrink them before packing: ``convert a.png -resize '2048x2048>' b.png``. OpenCLIP 4 drops images over
    ``--max-image-pixels``, 25 million by default.
    """

    code = "I211"
    severity = "warning"
    tallies = ("image.bomb-warning",)

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        return f"{how_many(count, 'image has', 'images have')} over 89 megapixels{first_seen(detail)}: over 0.27 GB each when decoded"
