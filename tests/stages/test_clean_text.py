"""CleanText: what should not be in captions, and what should stay."""

import pytest

from wdsflow.stages import CleanText, StageError
from wdsflow.stages.caption_text import clean_text


def written(stage: CleanText, value: object) -> list[str | bytes]:
    return [sample["txt"] for sample in stage([{"__key__": "a", "__url__": "x.tar", "txt": value}])]


def run(stage: CleanText, value: object) -> list[str]:
    return [text.decode() if isinstance(text, bytes) else text for text in written(stage, value)]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"a cat", "a cat"),
        (bytearray(b"a cat"), "a cat"),
        (memoryview(b"a cat"), "a cat"),
        (b"\xef\xbb\xbfa cat", "a cat"),
        ("\ufeffa cat", "a cat"),
        ("a cat".encode("utf-16"), "a cat"),
        (b"\xfe\xff" + "a cat".encode("utf-16-be"), "a cat"),
        ("a cat".encode("utf-32"), "a cat"),
        (b"a\0 cat\0\0", "a cat"),
        ("a\x07 \x1b[31mcat\x1b[0m", "a cat"),
        ("caf\u00c3\u00a9", "café"),
        ("the dog\u00e2\u20ac\u2122s nose", "the dog\u2019s nose"),
        ("cats &amp; dogs", "cats & dogs"),
        ("  a\t\r\n\u00a0cat\u2028 \u3000sits ", "a cat sits"),
        ("a\u200bcat", "acat"),
        ("cafe\u0301", "café"),
    ],
)
def test_a_caption_comes_out_clean_and_stays_so(value, expected):
    assert run(CleanText(), value) == [expected]
    assert clean_text(expected) == expected


@pytest.mark.parametrize(
    "text",
    [
        "日本語の猫",
        "\u201cquoted\u201d",
        "ﬁne",
        "ｆｕｌｌ",
        "👩\u200d👩\u200d👧",
        "क्\u200dष",
        "naïve façade",
        "a < b > c",
    ],
)
def test_what_is_well_is_left_alone(text):
    stage = CleanText()
    assert run(stage, text.encode()) == [text]
    assert stage.counts.noted == {}


@pytest.mark.parametrize(
    "value", ["un  caf\u00e9", "un  caf\u00e9".encode(), bytearray("un caf\u00e9".encode("utf-16"))]
)
def test_a_text_stays_as_raw_as_it_was_unless_told_otherwise(value):
    text = "un caf\u00e9"
    assert written(CleanText(), value) == [text if isinstance(value, str) else text.encode()]
    assert written(CleanText(output="str"), value) == [text]
    assert written(CleanText(output="bytes"), value) == [text.encode()]


def test_what_was_changed_is_noted():
    stage = CleanText()
    run(stage, b"two  spaces")
    assert stage.counts.noted == {"changed": 1}


@pytest.mark.parametrize("value", [b"", b" \n", b"\0\0", "\ufeff", "\u200b \u200d", b"\xff\xfe"])
def test_a_caption_of_nothing_is_dropped_kept_or_an_error(value):
    stage = CleanText()
    assert run(stage, value) == []
    assert stage.counts.dropped == {"empty": 1}
    assert len(run(CleanText(on_empty="keep"), value)) == 1
    with pytest.raises(StageError, match="nothing visible"):
        run(CleanText(on_empty="raise"), value)


def test_bytes_that_are_not_utf8_are_an_error_unless_an_encoding_is_given():
    data = b"the dog\x92s nose"
    with pytest.raises(
        StageError, match=r"clean_text: sample 'a' of 'x.tar': .*fallback='cp1252'"
    ) as caught:
        run(CleanText(), data)
    assert caught.value.slug == "not-utf8"
    stage = CleanText(fallback="cp1252")
    assert run(stage, data) == ["the dog\u2019s nose"]
    assert stage.counts.noted["not-utf8"] == 1


def test_half_a_character_of_utf16_is_an_error():
    stage = CleanText(on_error="drop")
    assert run(stage, b"\xff\xfea\0b") == []
    assert stage.counts.failed == {"not-utf8": 1}


def test_a_caption_beyond_the_bound_is_an_error_and_is_not_cleaned():
    stage = CleanText(on_error="drop")
    assert run(stage, b"x " * (15 << 20)) == []
    assert stage.counts.failed == {"large-text": 1}


@pytest.mark.parametrize("value", [None, 7, {"caption": "a"}, ["a"]])
def test_what_is_no_text_is_an_error(value):
    with pytest.raises(StageError, match="is not text") as caught:
        run(CleanText(), value)
    assert caught.value.slug == "not-text"


def test_a_missing_field_is_settled_as_asked():
    def counts(choice):
        stage = CleanText(on_missing=choice, on_error="drop")
        return len(list(stage([{"__key__": "a"}]))), stage.counts

    assert (
        counts("raise")[1].failed
        == counts("drop")[1].dropped
        == counts("keep")[1].noted
        == {"no-txt": 1}
    )
    assert counts("keep")[0] == 1


def test_all_alternatives_that_are_there_are_cleaned():
    [sample] = CleanText("txt;caption")([{"__key__": "a", "txt": b"a  b", "caption": "c  d"}])
    assert (sample["txt"], sample["caption"]) == (b"a b", "c d")


def test_an_encoding_that_there_is_not_is_refused():
    with pytest.raises(ValueError, match="is not an encoding"):
        CleanText(fallback="klingon")
