from ..kit.caption_rule import QualityRule


class Rotated(QualityRule):
    """Images are stored rotated.

    What: their EXIF orientation says that they must be turned or mirrored to be seen as taken.

    Why it hurts: OpenCLIP, webdataset and Pillow's ``load`` ignore it: the model sees people lying on their side. A
    crop of a tall picture that is stored wide shows another part than it should.

    In the wild: photographs from telephones (diffusers PR#3465, tfds#3202).

    Cure: turn them before packing, without loss: ``exiftran -ai *.jpg``, or in Python
    ``ImageOps.exif_transpose(image)``
    """

    code = "I215"
    tallies = ("image.rotated",)
    predicate = "are stored rotated"
    predicate_one = "is stored rotated"
    consequence = "readers ignore the EXIF orientation"
    common = 0.02
