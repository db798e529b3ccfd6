from wdsflow.scan.evidence import ShardEvidence, Tally
from wdsflow.text.words import how_many

from ..kit.base import first_seen
from ..kit.image_rule import ImageLossRule


class Undecodable(ImageLossRule):
    """Pillow cannot decode the image.

    What: the data begin like an image, but Pillow raises an error while decoding it. Found only at ``--level full``.
    I216, I202, I210 and I217 report images that are empty, cut, or not images at all.

    Why it matters: OpenCLIP logs one warning without a name and drops the sample, in each epoch again. webdataset 1.x,
    Hugging Face datasets and Ray Data end with an exception.

    In practice: "Handling webdataset error (UnidentifiedImageError(...)). Ignoring." without a key (kraken#299 asks for
    the file name); formats for which this Pillow has no decoder (AVIF, HEIC).

    Fix: ``wdsflow repair SHARD -o repaired --drop-bad`` leaves such samples out; or download them again.
    """

    code = "I201"
    tallies = ("image.undecodable",)

    def seen(self, shard: ShardEvidence) -> Tally:
        """Return the tally without the cut images; the first place may be one of those."""
        tally = shard.tally("image.undecodable")
        cut = shard.tally("image.cut").count
        return tally if not cut else Tally(tally.count - cut) if tally.count > cut else Tally()

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        return f"{how_many(count, 'image')} cannot be decoded{first_seen(detail)}"
