from wdsflow.scan.evidence import ShardEvidence
from wdsflow.text.words import how_many

from ..kit.base import first_seen
from ..kit.image_rule import ImageLossRule


class NotAnImage(ImageLossRule):
    """Files with an image extension are not images.

    What: the first bytes are neither of an image format known to Pillow nor text (I210).

    Why it matters: Pillow raises UnidentifiedImageError. OpenCLIP drops the sample with a warning without a name in
    each epoch; webdataset 1.x, Hugging Face datasets and Ray Data end with an exception. OpenCLIP 3.3 drops it even if
    the file is a side field, such as a video named ``.mpg`` or an ``.h5`` table, which webdataset takes for images.

    In practice: files shifted or overwritten on a bad disk, encrypted or zero-filled data, paths stored instead of
    pictures (TarWriter stores a ``str`` as text).

    Fix: ``wdsflow repair SHARD -o repaired --drop-bad`` leaves such samples out. Side fields can be renamed:
    ``--rename mpg=video``
    """

    code = "I217"
    requires = ("W012", "W022")  # macOS twins of images have image names too
    tallies = ("image.not-image",)

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        return f"{how_many(count, 'image is', 'images are')} not an image by the first bytes{first_seen(detail)}"
