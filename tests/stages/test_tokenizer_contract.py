"""Tokenizers of all kinds return correct rows, or raise a helpful error.

The error explains what a tokenizer must return.
"""

import pickle
import random
import re
from functools import partial
from typing import Any

import numpy as np
import pytest

from wdsflow.stages import Tokenize
from wdsflow.stages.tokenizer_contract import CaptionFailure, TokenizerContract, TokenizerError

torch = pytest.importorskip("torch")

TEXTS = ["a red cat", "two dogs on a beach", "a", "a red cat", "evening"]
LENGTH = 8


def vocab(text):
    return torch.tensor([*text.encode()[:LENGTH], *[0] * (LENGTH - len(text.encode()))])


def rows_of(texts):
    return torch.stack([vocab(text) for text in texts])


RIGHT = {
    "only a list": rows_of,
    "only a list, as arrays": lambda texts: np.stack([vocab(text).numpy() for text in texts]),
    "only a list, as lists": lambda texts: [vocab(text).tolist() for text in texts],
    "only one text": lambda text: torch.stack([vocab(text + "")]),
    "only one text, as a list": lambda text: [vocab(text + "")],
    "both, as OpenCLIP": lambda texts: rows_of([texts] if isinstance(texts, str) else texts),
    "a dict": lambda texts: {"input_ids": rows_of(texts), "attention_mask": None},
    "a dict of lists": lambda texts: {"input_ids": [vocab(text).tolist() for text in texts]},
    "another type": lambda texts: rows_of(texts).half(),
    "gradients": lambda texts: rows_of(texts).float().requires_grad_(),
}


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("together", [True, False])
def test_each_caption_gets_its_own_row(name, together):
    contract = TokenizerContract(RIGHT[name])
    rows: list[Any] = (
        contract(TEXTS) if together else [row for text in TEXTS for row in contract([text])]
    )
    assert [[int(token) for token in row] for row in rows] == [
        vocab(text).tolist() for text in TEXTS
    ]


def test_captions_without_a_tokenizer_stay_as_they_are():
    assert TokenizerContract(lambda text: [text])(TEXTS) == TEXTS


def test_lists_of_numbers_become_rows_of_whole_numbers():
    rows = TokenizerContract(RIGHT["only a list, as lists"])(TEXTS)
    assert {torch.from_numpy(row).dtype for row in rows} == {torch.long}


def test_a_caption_that_is_longer_than_all_before_is_refused_in_lists_too():
    contract = TokenizerContract(lambda texts: [[1] * max(3, len(text.split())) for text in texts])
    contract([f"caption {number}" for number in range(8)])
    with pytest.raises(
        TokenizerError, match=r"\[3\] for 'caption 0', \[5\] for 'a dog on a beach'"
    ):
        contract(["a dog on a beach"])


def words(texts, *, padding):
    texts = [texts] if isinstance(texts, str) else texts
    rows = [[len(word) for word in text.split()] for text in texts]
    most = max(map(len, rows)) if padding == "longest" else 6
    return torch.tensor([row + [0] * (most - len(row)) for row in rows])


WRONG = {
    "raises always": (
        lambda texts: texts.nothing,
        r"for a list of 2 captions it raised AttributeError: .*, in <lambda> \(.*test_tokenizer_contract\.py, line \d+\)",
    ),
    "raises always, in C": (
        int,
        r"for the caption 'a red cat' it raised ValueError: [^,]*: 'a red cat'\.\n",
    ),
    "one row for a list": (
        lambda texts: torch.zeros(1 if len(texts) == 2 else 3, 4),
        "for a list of 2 captions it returned 1 row",
    ),
    "pads to the longest": (
        partial(words, padding="longest"),
        r"its rows have different lengths: \[3\] for 'a red cat'",
    ),
    "not padded": (
        lambda texts: {"input_ids": [list(text.encode()) for text in texts]},
        "different lengths",
    ),
    "lists of unequal lengths": (
        lambda texts: [[1] * len(text.split()) for text in texts],
        r"\[3\] for 'a red cat', \[5\]",
    ),
    "lists in lists": (
        lambda texts: [[[1], [1, 2]] for _ in texts],
        "a row of lists that have different lengths",
    ),
    "depends on others": (
        lambda texts: rows_of(texts) + len(texts),
        "gets other tokens in a list of 4 captions than alone",
    ),
    "no rows": (lambda texts: None, "it returned a NoneType, which has no rows"),
    "another dict": (
        lambda texts: {"tokens": rows_of(texts)},
        r"a dict without input_ids \(its keys: tokens\)",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_anything_else_is_an_error_with_the_contract_in_words(name):
    tokenizer, told = WRONG[name]
    with pytest.raises(TokenizerError, match=told) as caught:
        TokenizerContract(tokenizer)(TEXTS)
    assert "takes a list of n captions and returns n rows" in str(caught.value)
    assert 'padding="max_length"' in str(caught.value)


def test_a_fault_that_only_later_captions_show_is_found():
    contract = TokenizerContract(partial(words, padding="longest"))
    contract(["a cat", "a dog"])
    with pytest.raises(TokenizerError, match="different lengths"):
        contract(["a dog on a beach"])
    contract = TokenizerContract(lambda texts: rows_of(texts)[: 1 if "lost" in texts else None])
    contract([f"caption {number}" for number in range(8)])
    with pytest.raises(TokenizerError, match="a list of 2 captions it returned 1 row"):
        contract(["lost", "found"])


def test_a_caption_for_which_a_tokenizer_raises_is_named():
    def fails(texts):
        if any("dogs" in text for text in texts):
            raise KeyError("dogs")
        return rows_of(texts)

    for early in ([], [str(number) for number in range(8)]):
        contract = TokenizerContract(fails)
        for text in early:
            contract([text])
        with pytest.raises(CaptionFailure) as caught:
            contract(TEXTS)
        assert caught.value.texts == ["two dogs on a beach"]
        assert isinstance(caught.value.__cause__, KeyError)


def test_a_tokenizer_that_draws_by_chance_is_called_for_each_caption():
    lists = []

    def drops(texts):
        lists.append(len(texts))
        return rows_of(texts) * torch.tensor([random.choice([0, 1]) for _ in range(LENGTH)])

    contract = TokenizerContract(drops)
    contract(TEXTS)
    lists.clear()
    assert len(contract(TEXTS)) == len(TEXTS)
    assert set(lists) == {1}


def test_a_tokenizer_of_transformers_is_taken_once_it_pads():
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    model = tokenizers.models.WordLevel(
        {"[UNK]": 0, "[PAD]": 1, "a": 2, "cat": 3, "dogs": 4}, unk_token="[UNK]"
    )
    inner = tokenizers.Tokenizer(model)
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="[PAD]", unk_token="[UNK]"
    )
    with pytest.raises(TokenizerError, match="different lengths") as caught:
        TokenizerContract(tokenizer)(TEXTS)
    [advice] = re.findall(r"functools\.partial\(.*\)", str(caught.value))
    # As the message prints it.
    padded = eval(advice, {"functools": __import__("functools"), "tokenizer": tokenizer})
    rows: list[Any] = TokenizerContract(padded)(TEXTS)
    assert [len(row) for row in rows] == [77] * len(TEXTS)
    assert rows[0].tolist()[:4] == [2, 0, 3, 1]


def test_the_stage_keeps_to_the_same_contract():
    found = [
        sample["txt"].tolist()
        for sample in Tokenize(rows_of)([{"__key__": "a", "txt": text} for text in TEXTS])
    ]
    assert found == [vocab(text).tolist() for text in TEXTS]
    with pytest.raises(TokenizerError, match="different lengths"):
        list(
            Tokenize(partial(words, padding="longest"))(
                [{"__key__": "a", "txt": text} for text in TEXTS]
            )
        )


def test_a_contract_travels_without_the_captions_that_it_has_seen() -> None:
    contract = TokenizerContract(rows_of)
    unused = pickle.dumps(contract)
    rows: list[Any] = contract(TEXTS)

    sent = pickle.dumps(contract)

    assert sent == unused
    assert [row.tolist() for row in pickle.loads(sent)(TEXTS)] == [row.tolist() for row in rows]


@pytest.mark.parametrize("share", [0.2, 0.02])
def test_a_tokenizer_that_rarely_draws_by_chance_is_taken(share: float):
    chance = random.Random(3)

    def tokenizer(texts):
        kept = [
            text if chance.random() >= share else ""
            for text in ([texts] if isinstance(texts, str) else texts)
        ]
        return torch.tensor([[len(text), sum(text.encode())] for text in kept])

    for number in range(100):
        contract = TokenizerContract(tokenizer)
        for batch in range(4):
            assert len(contract([f"caption {number} {batch} {each}" for each in range(4)])) == 4
