import pickle

import pytest

from wdsflow.filtering.jsonl.media_tokens import Chunk, Tokens, TokensSeen

IMAGE, VIDEO, END = "<__dj__image>", "<__dj__video>", "<|__dj__eoc|>"


def test_each_chunk_takes_the_next_images():
    text = f"{IMAGE} a cat {END} two {IMAGE}{IMAGE} dogs {END}{VIDEO} and a film {END}"
    assert Tokens().chunks(text) == [
        Chunk("a cat", (0,), ()),
        Chunk("two  dogs", (1, 2), ()),
        Chunk("and a film", (), (0,)),
    ]


def test_a_caption_has_no_tokens_and_no_white_space_around_it():
    assert Tokens().chunks(f"  {IMAGE}\n words <__dj__audio> of it\t") == [Chunk("words  of it", (0,), ())]
    assert Tokens().chunks(f"{IMAGE}") == [Chunk("", (0,), ())]


def test_text_alone_is_a_chunk_without_images_and_nothing_is_none():
    assert Tokens().chunks("only words") == [Chunk("only words", (), ())]
    assert Tokens().chunks(f" {END} {END}") == Tokens().chunks("") == []


def test_tokens_of_ones_own_are_values_that_travel():
    own = pickle.loads(pickle.dumps(Tokens(image="<image>", end="<eoc>")))
    assert own.chunks("<image> a<eoc><image>b") == [Chunk("a", (0,), ()), Chunk("b", (1,), ())]
    assert own.chunks(f"{IMAGE} a") == [Chunk(f"{IMAGE} a", (), ())]


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ({"image": ""}, "empty"),
        ({"end": " "}, "empty"),
        ({"image": "<x>", "video": "<x>"}, "cannot be told"),
        ({"image": "<img", "video": "<img2"}, "cannot be told"),
    ],
)
def test_tokens_that_would_be_mistaken_are_refused(tokens, message):
    with pytest.raises(ValueError, match=message):
        Tokens(**tokens)


def problem(tokens, *rows):
    seen = TokensSeen(tokens)
    for row in rows:
        seen.add(*row)
    return seen.problem()


def test_a_token_that_is_nowhere_is_told_with_those_that_are_there():
    text = "<image> a cat <image> and a <b>dog</b>"
    found = problem(Tokens(), (text, 2, 0), ("<image> x", 1, 0), ("no picture", 0, 0))
    assert "2 rows have images, and no text has the token '<__dj__image>'; there are '<image>', '<b>'" in found
    assert "--image-token" in found
    assert "nothing like a token" in problem(Tokens(), ("words", 0, 3))
    assert "--video-token" in problem(Tokens(), ("words", 0, 3))


def test_one_row_with_the_token_is_enough_and_rows_without_images_need_none():
    assert problem(Tokens(), ("a", 1, 0), (f"{IMAGE} b", 1, 0)) == ""
    assert problem(Tokens(), ("a", 0, 0), ("<image>", 0, 0)) == problem(Tokens()) == ""
