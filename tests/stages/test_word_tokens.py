"""Captions tokenized word by word have the tokens of OpenCLIP's tokenizer."""

import random
import string

import numpy as np
import open_clip
import pytest
from open_clip.tokenizer import SimpleTokenizer

from wdsflow.stages.tokenizer_contract import TokenizerContract
from wdsflow.stages.word_tokens import by_words

HARD = [
    "",
    "  two   spaces ",
    "don't I'LL we've 's'S'LL it 's",
    "<start_of_text> a<END_of_text>b",
    "a &amp;amp; b &lt;x&gt; &notit",
    "tab\tand\nline\r\nends\x85",
    "\x1b[31mred\x1b[0m \x00\x7f",
    "__a_b__ ... !!! 12,345.678",
    "Ünïcödé ﬁ ﬂ “quotes” naïve ＡＢＣ",
    "word" * 1000,
    "many words " * 100,
]


def captions(count: int) -> list[str]:
    rng = random.Random(7)
    kinds = string.ascii_letters + "'-.,", string.printable, "".join(map(chr, range(32, 0x180)))
    made = [
        "".join(rng.choices(rng.choice(kinds) + "   ", k=rng.randrange(120))) for _ in range(count)
    ]
    return [*HARD, *made]


@pytest.mark.sample(1)
@pytest.mark.parametrize("clean", ["lower", "whitespace", "canonicalize"])
def test_tokens_are_the_tokenizers(clean: str) -> None:
    tokenizer = SimpleTokenizer(clean=clean)
    fast = by_words(tokenizer)
    assert fast is not None
    texts = captions(500)
    for _ in range(2):  # the second time words are known
        for start in range(0, len(texts), 16):
            some = texts[start : start + 16]
            assert np.array_equal(np.asarray(fast(some)), tokenizer(some).numpy()), some
    assert len(fast._tokens) > 500  # they went this way


def test_a_changed_tokenizer_is_used_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = SimpleTokenizer()
    encode = tokenizer.encode
    monkeypatch.setattr(
        SimpleTokenizer, "encode", lambda _, text: [len(text.split()), *encode(text)]
    )
    texts = ["one two three", "four"]
    rows = TokenizerContract(tokenizer)(texts)
    assert np.array_equal(np.stack(rows), tokenizer(texts).numpy())  # type: ignore[call-overload]
    assert rows[0][1] == 3  # type: ignore[index]


@pytest.mark.deep
def test_no_other_tokenizer_is_taken_over() -> None:
    assert by_words(open_clip.get_tokenizer("ViT-B-32")) is not None
    assert by_words(SimpleTokenizer(reduction_mask="random")) is None
    assert by_words(SimpleTokenizer(additional_special_tokens=["a photo"])) is None
    cleaned = SimpleTokenizer()
    cleaned.clean_fn = lambda text: text.removesuffix(" stock photo")
    assert by_words(cleaned) is None
    assert by_words(lambda texts: texts) is None
