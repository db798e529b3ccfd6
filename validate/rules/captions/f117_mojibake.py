from ..kit.caption_rule import QualityRule


class Mojibake(QualityRule):
    """Captions were decoded with the wrong encoding.

    What: UTF-8 text that was read as Latin-1 and saved again: ``Ã©`` for ``é``, ``â€™`` for an apostrophe.

    Why it matters: it is valid UTF-8, so no reader complains. OpenCLIP's tokenizer repairs it if it uses ftfy (as its
    default cleaning does); other tokenizers learn the broken letters and spend two or three tokens on each.

    In practice: pages that declare a wrong encoding, csv files opened and saved in a spreadsheet.

    Fix: repair the captions before packing: ``text = ftfy.fix_text(text)``
    """

    code = "F117"
    unit = "caption"
    tallies = ("text.mojibake",)
    predicate = "look like UTF-8 read as Latin-1"
    predicate_one = "looks like UTF-8 read as Latin-1"
    consequence = "letters with accents are broken"
