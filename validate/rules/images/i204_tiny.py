from ..kit.caption_rule import QualityRule


class Tiny(QualityRule):
    """Images are tiny.

    What: the shorter side has fewer than 32 pixels.

    Why it matters: readers enlarge them to the model's size. The picture is a blur of a few colours, or a tracking
    pixel, and the caption describes something else.

    In practice: icons, spacers and tracking pixels in crawls (img2dataset#41).

    Fix: leave them out when downloading: ``img2dataset --min_image_size 64 ...``
    """

    code = "I204"
    tallies = ("image.tiny",)
    predicate = "have a side of under 32 pixels"
    predicate_one = "has a side of under 32 pixels"
    consequence = "enlarged to the model's size, they show little"
