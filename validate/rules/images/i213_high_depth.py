from ..kit.caption_rule import QualityRule


class HighDepth(QualityRule):
    """Images have more than 8 bits per channel.

    What: 16-bit or floating-point pixels.

    Why it matters: readers convert with ``convert("RGB")``, which clips 16-bit grey instead of scaling it: everything
    above 255 of 65,535 turns white. Floating-point pictures with values up to 1 turn black. The picture is silently
    lost.

    In practice: depth maps, medical and satellite pictures, scans as 16-bit PNG or TIFF.

    Fix: scale them before packing: ``convert a.png -depth 8 b.png``
    """

    code = "I213"
    tallies = ("image.high-depth",)
    predicate = "have more than 8 bits per channel"
    predicate_one = "has more than 8 bits per channel"
    consequence = "convert('RGB') clips to white or black"
    common = 0.0
