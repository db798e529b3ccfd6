from wdsflow.scan.evidence import ShardEvidence
from wdsflow.text.words import how_many

from ..kit.image_rule import ImageLossRule


class EmptyImage(ImageLossRule):
    """Images have no bytes.

    What: image members of size 0.

    Why it hurts: Pillow raises UnidentifiedImageError. OpenCLIP drops the sample with an anonymous warning in each
    epoch; webdataset 1.x, Hugging Face datasets and Ray Data end with an exception.

    In the wild: failed downloads of which only the file name was kept, a full disk while packing.

    Cure: ``wdsflow repair SHARD -o repaired --drop-bad`` leaves such samples out; or download them again.
    """

    code = "I216"
    requires = ("W012", "W022")  # macOS twins of images are called images too
    tallies = ("image.empty",)

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        return f"{how_many(count, 'image')} {'has' if count == 1 else 'have'} no bytes"
