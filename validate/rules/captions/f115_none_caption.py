from ..kit.caption_rule import QualityRule


class NoneCaption(QualityRule):
    """Captions are the word nan, none or null.

    What: a missing caption that was turned into text.

    Why it matters: all these images are trained with the same word, and the sample looks complete to every reader and
    filter.

    In practice: ``str(value)`` on an empty cell of a pandas table gives ``nan``; OpenCLIP's own csv reader does that.

    Fix: leave such rows out before packing: ``table = table.dropna(subset=["caption"])``
    """

    code = "F115"
    unit = "caption"
    tallies = ("text.none",)
    predicate = "are the word nan, none or null"
    predicate_one = "is the word nan, none or null"
    consequence = "a missing caption was turned into text"
    common = 0.001
