from ..kit.caption_rule import QualityRule


class Alpha(QualityRule):
    """Images have transparency.

    What: an alpha channel or a transparent colour.

    Why it hurts: readers drop it with ``convert("RGB")``: what was invisible shows, often black, or colours left over
    under the transparent parts. img2dataset puts pictures on white instead, so that two sources differ. Pillow warns
    for each palette image with transparency, which floods the log.

    In the wild: logos, stickers, clip art, cut-out products as PNG or WebP (paimon#10096).

    Cure: put them on white before packing: ``convert a.png -background white -alpha remove b.png``
    """

    code = "I214"
    tallies = ("image.alpha",)
    predicate = "have transparency"
    predicate_one = "has transparency"
    consequence = "readers drop it, and hidden colours show"
    common = 0.05
