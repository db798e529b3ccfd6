from ..kit.caption_rule import QualityRule


class OddCharacters(QualityRule):
    r"""Captions have control characters, NULs or a byte-order mark.

    What: characters that are not text: NUL, terminal escapes, other control characters, or U+FEFF at the start.

    Why it matters: OpenCLIP's tokenizer makes separate tokens of the mark and the control characters, before the first
    word or in the middle of one. In a terminal or a log, escapes change colours and titles or hide text; wdsflow shows
    them spelled out.

    In practice: text saved as "UTF-8 with BOM" by Windows editors, text taken from PDF files.

    Fix: clean the captions before packing:
    ``text = "".join(c for c in text.lstrip("\ufeff") if c.isprintable() or c.isspace())``
    """

    code = "F113"
    unit = "caption"
    tallies = ("text.bom", "text.nul", "text.control")
    predicate = "have control characters or a byte-order mark"
    predicate_one = "has control characters or a byte-order mark"
    consequence = "such characters become tokens"
