from wdsflow.scan.evidence import ShardEvidence
from wdsflow.text.words import how_many

from ..kit.image_rule import ImageLossRule


class EmptyImage(ImageLossRule):
    """Images are empty.

    What: image members of size 0.

    Why it matters: Pillow raises UnidentifiedImageError. OpenCLIP drops the sample with a warning without a name in
    each epoch; webdataset 1.x, Hugging Face datasets and Ray Data end with an exception.

    In practice: failed downloads of which only the file name was kept, a full disk while packing.

    Fix: ``wdsflow repair SHARD -o repaired --drop-bad`` leaves such samples out; or download them again.
    """

    code = "I216"
    requires = ("W012", "W022")  # macOS twins of images have image names too
    tallies = ("image.empty",)

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        return f"{how_many(count, 'image is', 'images are')} empty"
