import pytest

from tests.stages.stage_laws import assert_stage_laws
from wdsflow.stages import StageError, Tokenize

torch = pytest.importorskip("torch")


def letters(text, context_length=8):
    """One token a byte between a start and an end, padded by 0, as OpenCLIP's tokenizers do it."""
    tokens = [1, *(byte + 3 for byte in text.encode()), 2]
    if len(tokens) > context_length:
        tokens = [*tokens[: context_length - 1], 2]
    return torch.tensor([tokens + [0] * (context_length - len(tokens))])


def fixed(text):
    return letters(text)


def refusing(text):
    if len(text) > 6:
        raise RuntimeError(f"Input {text} is too long for context length 8")
    return letters(text)


def broken(text):
    raise RuntimeError("out of order")


def run(stage, *texts):
    return list(stage([{"__key__": str(number), "txt": text} for number, text in enumerate(texts)]))


def test_a_caption_becomes_one_row_of_tokens():
    (sample,) = run(Tokenize(letters), "cat")
    assert sample["txt"].tolist() == [1, 102, 100, 119, 2, 0, 0, 0]
    assert run(Tokenize(letters), b"cat")[0]["txt"].tolist() == sample["txt"].tolist()


def test_captions_that_were_cut_are_kept_and_noted():
    stage = Tokenize(letters)
    kept = run(stage, "", "abcd", "abcde", "abcdef", "abcdefg", "aaaaaaaaaaaaaaa", "a" * 500)
    assert len(kept) == 7
    assert stage.counts.noted == {"truncated": 3}


def test_a_tokenizer_without_more_room_leaves_it_open():
    stage = Tokenize(fixed)
    run(stage, "abcde", "abcdef", "abcdefg")
    assert stage.counts.noted == {"perhaps-truncated": 1}


def test_a_tokenizer_that_does_not_pad_or_ignores_its_length_leaves_it_open():
    def unpadded(text, context_length=8):
        return torch.tensor([[byte + 3 for byte in text.encode()][:context_length]])

    def same_length(text, context_length=8):
        return letters(text)

    for tokenizer in (unpadded, same_length):
        stage = Tokenize(tokenizer)
        run(stage, "abcdefgh")
        assert stage.counts.noted == {"perhaps-truncated": 1}


def test_a_tokenizer_that_refuses_long_captions_has_a_name_for_it():
    stage = Tokenize(refusing, on_error="drop")
    assert len(run(stage, "cat", "a cat on a mat")) == 1
    assert stage.counts.failed == {"too-long": 1}


def test_other_errors_of_a_tokenizer_end_the_run():
    with pytest.raises(RuntimeError, match="out of order"):
        run(Tokenize(broken, on_error="drop"), "cat")


def test_what_is_no_text_has_a_name():
    stage = Tokenize(letters, on_error="drop")
    assert run(stage, b"\xff", None, ["a"], 3) == []
    assert list(stage([{"__key__": "a"}])) == []
    assert stage.counts.failed == {"not-text": 4, "no-text": 1}
    with pytest.raises(StageError, match="none of 'txt'"):
        list(Tokenize(letters)([{"__key__": "a"}]))


def test_alternatives_are_tried_in_order():
    (sample,) = Tokenize(letters, "txt;caption")([{"__key__": "a", "caption": "cat"}])
    assert sample["caption"].shape == (8,)


def test_an_openclip_model_is_named():
    open_clip = pytest.importorskip("open_clip")
    stage = Tokenize("ViT-B-32")
    long = "a photo of " + "very " * 100 + "long cats"
    exact = " ".join(["cat"] * 75)
    kept = run(stage, "a cat", long, exact, f"{exact} cat", "é" * 60)
    theirs = open_clip.get_tokenizer("ViT-B-32")
    assert torch.equal(kept[0]["txt"], theirs("a cat")[0])
    assert stage.counts.noted == {"truncated": 2}


def test_tokenize_keeps_the_laws_of_stages():
    pytest.importorskip("open_clip")
    samples = [{"__key__": str(number), "txt": "a cat " * number} for number in range(4)]
    assert len(assert_stage_laws(Tokenize("ViT-B-32"), samples)) == 4


def test_options_that_make_no_sense_are_refused():
    for options in ({"on_error": "skip"}, {"field": "__key__"}):
        with pytest.raises(ValueError):
            Tokenize("ViT-B-32", **options)
