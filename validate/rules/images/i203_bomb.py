from wdsflow.scan.evidence import BOMB, ShardEvidence
from wdsflow.text.words import how_many

from ..kit.base import first_seen
from ..kit.image_rule import ImageLossRule


class Bomb(ImageLossRule):
    """An image is so large that Pillow refuses it.

    What: more than 178,956,970 pixels, twice Pillow's ``MAX_IMAGE_PIXELS``, by the image's own header.

    Why it matters: Pillow raises DecompressionBombError. OpenCLIP 3.3 drops the sample with a warning without a key;
    webdataset 1.x, Hugging Face datasets and Ray Data end with an exception. Code that lifts the limit needs at least
    half a gigabyte of memory for each: a few at once kill the worker.

    In practice: scans, maps, panoramas and posters; a PNG of a few kilobytes that expands to gigabytes is an attack
    (memery#10, RT-DETR#337; img2dataset PR#231).

    Fix: shrink it before packing: ``convert a.png -resize '2048x2048>' b.png``. Or leave it out:
    ``wdsflow repair SHARD -o repaired --drop-bad``
    """

    code = "I203"
    tallies = ("image.bomb",)
    statuses = (BOMB,)

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        return f"{how_many(count, 'image has', 'images have')} over 178 megapixels{first_seen(detail)}: Pillow refuses to decode them"
