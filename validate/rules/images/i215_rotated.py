from ..kit.caption_rule import QualityRule


class Rotated(QualityRule):
    """Images are stored rotated.

    What: by their EXIF orientation, they must be turned or mirrored before they are shown.

    Why it matters: OpenCLIP, webdataset and Pillow's ``load`` ignore it: the model sees people lying on their side. A
    crop of a tall picture that is stored wide shows the wrong part.

    In practice: photographs from telephones (diffusers PR#3465, tfds#3202).

    Fix: turn them before packing, without loss: ``exiftran -ai *.jpg``, or in Python
    ``ImageOps.exif_transpose(image)``
    """

    code = "I215"
    tallies = ("image.rotated",)
    predicate = "are stored rotated"
    predicate_one = "is stored rotated"
    consequence = "readers ignore the EXIF orientation"
    common = 0.02
