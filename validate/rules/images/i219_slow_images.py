from collections import Counter
from collections.abc import Iterator

from ...finding import Finding
from ..kit.base import Context, Rule

_LARGE = 22  # 2^22 = 4.2 megapixels
_MODEL_PIXELS = 224 * 224


class SlowImages(Rule):
    """Images are far larger than training needs.

    What: half of the images have 4 megapixels or more.

    Why it matters: a worker decodes every image at its full size and discards most of it. For a model that sees 224 x
    224, an image of 12 megapixels means 240 decoded pixels for each used one. The first batch takes minutes, the GPU
    waits for the loader, and the shuffle buffer of 5,000 raw samples per worker fills the memory.

    In practice: photographs at full resolution, scans (webdataset#267; pytorch-DR#1: 20 to 700 MB per image).

    Fix: shrink them once, before packing: ``mogrify -resize '512x512^>' FOLDER/*.jpg``, or when downloading:
    ``img2dataset --image_size 512 --resize_mode keep_ratio --resize_only_if_bigger True``
    """

    code = "I219"
    severity = "warning"

    def check(self, context: Context) -> Iterator[Finding]:
        counts: Counter[int] = Counter()
        pixels = size = 0
        for shard in context.evidence.shards:
            counts.update(shard.images.megapixels)
            pixels += shard.images.pixels
            size += shard.images.bytes
        images = counts.total()
        large = sum(count for power, count in counts.items() if power >= _LARGE)
        if not images or large * 2 < images:
            return
        mean = pixels / images
        yield Finding(
            code=self.code,
            severity=self.severity,
            message=f"{large:,} of {images:,} images have 4 megapixels or more (on average {mean / 1e6:.1f} "
            f"megapixels, {size / images / 1e6:.1f} MB): {mean / _MODEL_PIXELS:,.0f} pixels are decoded for each that a 224-pixel "
            "model sees",
            count=large,
            rate=large / images,
            readers=context.names(),
        )
