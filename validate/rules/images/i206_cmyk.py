from ..kit.caption_rule import QualityRule


class Cmyk(QualityRule):
    """Images are in CMYK.

    What: four printing inks instead of red, green and blue.

    Why it matters: Pillow converts them without the colour profile: colours come out too bright or shifted, and files
    whose values are inverted (as Adobe writes them) may look like negatives elsewhere. DALI and turbojpeg need an
    option to read them at all.

    In practice: pictures made for print, stock photographs.

    Fix: convert them before packing: ``convert a.jpg -profile sRGB.icc b.jpg``
    """

    code = "I206"
    tallies = ("image.cmyk",)
    predicate = "are in CMYK"
    predicate_one = "is in CMYK"
    consequence = "readers convert it without the colour profile"
