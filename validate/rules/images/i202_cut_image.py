from wdsflow.scan.evidence import ShardEvidence
from wdsflow.text.words import how_many

from ..kit.base import first_seen
from ..kit.image_rule import ImageLossRule


class CutImage(ImageLossRule):
    """Image data end too early.

    What: the file lacks its end marker (``--level headers``), or Pillow says that it is truncated (``--level full``).

    Why it matters: Pillow raises "image file is truncated (n bytes not processed)". OpenCLIP drops the sample with a
    warning that names no key; webdataset 1.x, Hugging Face datasets and Ray Data end with an exception. If
    ``ImageFile.LOAD_TRUNCATED_IMAGES`` is set, the lower part of the picture is grey and is trained like that. An image
    that lacks only its last two bytes decodes.

    In practice: downloads that were cut off but stored (webdataset#206; clip-retrieval#257, #13; datasets#6470).

    Fix: download these images again, or leave the samples out: ``wdsflow repair SHARD -o repaired --drop-bad``
    """

    code = "I202"
    harmless = "warning"
    tallies = ("image.cut",)

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        return f"{how_many(count, 'image ends', 'images end')} too early{first_seen(detail)}"
