from ..kit.caption_rule import QualityRule


class ExtremeAspect(QualityRule):
    """Images are extremely wide or high.

    What: one side is more than ten times the other.

    Why it matters: a square crop shows a tenth of the picture or less. In evaluation, the shortest side is enlarged to
    the model's size before the crop: a picture of 1 x 10,000 pixels becomes 224 x 2,240,000, which is 1.5 GB.

    In practice: banners, rulers, separators, sprites, screenshots of whole pages (img2dataset PR#193).

    Fix: leave them out when downloading: ``img2dataset --max_aspect_ratio 3 ...``
    """

    code = "I205"
    tallies = ("image.extreme-aspect",)
    predicate = "are more than ten times as long as wide"
    predicate_one = "is more than ten times as long as wide"
    consequence = "a square crop shows a small part"
