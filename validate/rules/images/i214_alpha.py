from ..kit.caption_rule import QualityRule


class Alpha(QualityRule):
    """Images have transparency.

    What: an alpha channel or a transparent colour.

    Why it matters: readers drop it with ``convert("RGB")``: hidden content becomes visible, often black, or leftover
    colours under the transparent parts. img2dataset puts pictures on white instead, so two sources differ. Pillow warns
    for each palette image with transparency, which floods the log.

    In practice: logos, stickers, clip art, cut-out products as PNG or WebP (paimon#10096).

    Fix: put them on white before packing: ``convert a.png -background white -alpha remove b.png``
    """

    code = "I214"
    tallies = ("image.alpha",)
    predicate = "have transparency"
    predicate_one = "has transparency"
    consequence = "readers drop it, and hidden colours become visible"
    common = 0.05
