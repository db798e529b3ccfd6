import pickle

import pytest

from wdsflow.filtering.jsonl.jsonl_rows import MediaChunk, MediaTokens, TokensSeen

IMAGE, VIDEO, END = "<__dj__image>", "<__dj__video>", "<|__dj__eoc|>"


def test_each_chunk_takes_the_next_images():
    text = f"{IMAGE} a cat {END} two {IMAGE}{IMAGE} dogs {END}{VIDEO} and a film {END}"
    assert MediaTokens().chunks(text) == [
        MediaChunk("a cat", (0,), ()),
        MediaChunk("two  dogs", (1, 2), ()),
        MediaChunk("and a film", (), (0,)),
    ]


def test_a_caption_has_no_tokens_and_no_white_space_around_it():
    assert MediaTokens().chunks(f"  {IMAGE}\n words <__dj__audio> of it\t") == [MediaChunk("words  of it", (0,), ())]
    assert MediaTokens().chunks(f"{IMAGE}") == [MediaChunk("", (0,), ())]


def test_text_alone_is_a_chunk_without_images_and_nothing_is_none():
    assert MediaTokens().chunks("only words") == [MediaChunk("only words", (), ())]
    assert MediaTokens().chunks(f" {END} {END}") == MediaTokens().chunks("") == []


def test_tokens_of_ones_own_are_values_that_travel():
    own = pickle.loads(pickle.dumps(MediaTokens(image="<image>", end="<eoc>")))
    assert own.chunks("<image> a<eoc><image>b") == [MediaChunk("a", (0,), ()), MediaChunk("b", (1,), ())]
    assert own.chunks(f"{IMAGE} a") == [MediaChunk(f"{IMAGE} a", (), ())]


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ({"image": ""}, "empty"),
        ({"end": " "}, "empty"),
        ({"image": "<x>", "video": "<x>"}, "cannot be distinguished"),
        ({"image": "<img", "video": "<img2"}, "cannot be distinguished"),
    ],
)
def test_tokens_that_would_be_mistaken_are_refused(tokens, message):
    with pytest.raises(ValueError, match=message):
        MediaTokens(**tokens)


def problem(tokens, *rows):
    seen = TokensSeen(tokens)
    for row in rows:
        seen.add(*row)
    return seen.problem()


def test_a_token_that_is_nowhere_is_told_with_those_that_are_there():
    text = "<image> a cat <image> and a <b>dog</b>"
    found = problem(MediaTokens(), (text, 2, 0), ("<image> x", 1, 0), ("no picture", 0, 0))
    assert "2 rows have images, and no text has the token '<__dj__image>'; the texts have '<image>', '<b>'" in found
    assert "--image-token" in found
    assert "none has anything like a token" in problem(MediaTokens(), ("words", 0, 3))
    assert "--video-token" in problem(MediaTokens(), ("words", 0, 3))


def test_one_row_with_the_token_is_enough_and_rows_without_images_need_none():
    assert problem(MediaTokens(), ("a", 1, 0), (f"{IMAGE} b", 1, 0)) == ""
    assert problem(MediaTokens(), ("a", 0, 0), ("<image>", 0, 0)) == problem(MediaTokens()) == ""
