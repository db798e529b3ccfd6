from wdsflow.scan.evidence import ShardEvidence
from wdsflow.text.words import how_many

from ..kit.base import first_seen
from ..kit.image_rule import ImageLossRule


class HtmlImage(ImageLossRule):
    """Text is saved as an image.

    What: HTML, XML, SVG or JSON under an image's name, by the first bytes.

    Why it matters: Pillow raises UnidentifiedImageError. OpenCLIP drops the sample with a warning without a name in
    each epoch; webdataset 1.x, Hugging Face datasets and Ray Data end with an exception.

    In practice: a downloader that did not check the status stores the page "404 Not Found" as .jpg (BLIP3o#65); SVG
    files named .png.

    Fix: ``wdsflow repair SHARD -o repaired --drop-bad`` leaves such samples out; or download them again.
    """

    code = "I210"
    requires = ("W012", "W022")  # macOS twins of images have image names too
    tallies = ("image.html",)

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        return f"{how_many(count, 'image is', 'images are')} HTML, XML or JSON text{first_seen(detail)}"
