from ..kit.caption_rule import QualityRule


class LongCaption(QualityRule):
    """Captions are longer than a text model reads.

    What: more than 75 words. A word is at least one token, and CLIP reads 77 tokens, two of which are start and end.
    Such captions are always cut; shorter ones may be.

    Why it matters: OpenCLIP's tokenizer cuts them silently: tokens after the 75th are never trained. The tokenizer of
    openai/CLIP raises "Input ... is too long for context length 77" instead.

    In practice: captions written by language models, product descriptions (open_clip#857, #515).

    Fix: put the important words first, or train a model with a longer context, such as one with ``"context_length":
    256`` in its config.
    """

    code = "F118"
    unit = "caption"
    tallies = ("text.long",)
    predicate = "have more than 75 words"
    predicate_one = "has more than 75 words"
    consequence = "CLIP's 77 tokens end before the caption does"
    common = 0.05
