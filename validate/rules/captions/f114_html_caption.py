from ..kit.caption_rule import QualityRule


class HtmlCaption(QualityRule):
    """Captions contain HTML.

    What: tags such as ``<br>`` or entities such as ``&amp;`` in captions.

    Why it matters: OpenCLIP's tokenizer turns entities back into characters, but leaves tags: ``br``, ``href`` and
    ``span`` become words that the model learns, and they fill the 77 tokens.

    In practice: alt texts and product descriptions taken from pages without cleaning.

    Fix: clean the captions before packing: ``text = html.unescape(re.sub(r"<[^>]*>", " ", text))``
    """

    code = "F114"
    unit = "caption"
    tallies = ("text.html",)
    predicate = "contain HTML tags or entities"
    predicate_one = "contains HTML tags or entities"
    consequence = "tags are learnt as words"
