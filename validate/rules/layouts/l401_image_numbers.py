from ..kit.interleaved_rule import InterleavedRule


class ImageNumbers(InterleavedRule):
    """Json and sample do not have the same number of images.

    What: the json of a sample has places for images, and the sample has more or fewer images: ``<image>`` tokens in the
    ``conversations`` of LLaVA, image parts in chat ``messages``, entries of ``image_info`` (MMC4) or ``images``
    (OBELICS). Masks and depth maps do not count. Samples with a video are left out, as their tokens stand for frames.

    Why it matters: models of this kind put the features of the n-th image at the n-th place. With too few images
    training ends with an IndexError or a message such as "Image features and image tokens do not match", perhaps after
    hours; with too many, some are silently left out, or all texts after the first gap get the wrong image.

    In practice: images that failed to download, while the json still lists them; conversations cut to a length with
    a token in the part that was cut; tokens that a cleaning script removed as markup.

    Fix: write the json again with a place for each image that is there, or leave such samples out:
    ``sample["json"]["conversations"]`` is a list of turns with ``value``.
    """

    code = "L401"
    tallies = ("interleaved.images-differ",)
    about_one = "has more or fewer images than places for them"
    about_several = "have more or fewer images than places for them"
