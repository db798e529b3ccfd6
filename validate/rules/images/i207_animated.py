from ..kit.caption_rule import QualityRule


class AnimatedImage(QualityRule):
    """Images are animated.

    What: a GIF, WebP or PNG with more than one frame.

    Why it matters: readers take the first frame, which is often blank or a title, while the caption describes what
    happens. The other frames are loaded and discarded.

    In practice: GIFs from message boards, animated WebP from messengers.

    Fix: leave them out, or choose a frame before packing: ``convert 'a.gif[10]' b.png``
    """

    code = "I207"
    tallies = ("image.animated",)
    predicate = "are animated"
    predicate_one = "is animated"
    consequence = "only the first frame is used"
