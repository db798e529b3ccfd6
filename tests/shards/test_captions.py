"""Captions out of json, whatever the json holds."""

import json

import pytest

from wdsflow.shards.caption_field import CaptionField, caption_of, parse_caption_field


@pytest.mark.parametrize(
    ("tree", "names", "caption"),
    [
        ({"caption": " a cat\n"}, ("caption",), "a cat"),
        ({"caption": "", "alt": "a dog"}, ("caption", "alt"), "a dog"),
        ({"caption": None}, ("caption",), None),
        ({"caption": 7}, ("caption",), None),
        ({"caption": {"text": "x"}}, ("caption",), None),
        ({"caption": {"text": "x"}}, ("caption.text",), "x"),
        ({"caption.text": "flat", "caption": {"text": "nested"}}, ("caption.text",), "flat"),
        ({"caption": ["", 3, " second "]}, ("caption",), "second"),
        ({"caption": []}, ("caption",), None),
        ({"caption": "\ud800"}, ("caption",), None),
        ({"caption": "日本語 \U0001f600"}, ("caption",), "日本語 \U0001f600"),
        (["caption"], ("caption",), None),
        ("caption", ("caption",), None),
    ],
)
def test_the_first_string_with_something_in_it_is_taken(
    tree: object, names: tuple[str, ...], caption: str | None
):
    assert caption_of(json.dumps(tree).encode(), names) == caption


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"\xff\xfe", b"[" * 1_000_000, b'{"caption": ' * 200_000, b'{"caption": "\xff"}'],
)
def test_json_that_cannot_be_parsed_holds_no_caption(data: bytes):
    assert caption_of(data, ("caption",)) is None


def test_json_that_only_python_parses_is_parsed():
    assert caption_of(b'{"score": NaN, "caption": "a"}', ("caption",)) == "a"
    assert caption_of('{"caption": "é"}'.encode("utf-16"), ("caption",)) == "é"
    assert caption_of(b'\xef\xbb\xbf{"caption": "a"}', ("caption",)) == "a"


def test_the_argument_is_parsed():
    assert parse_caption_field("json:a.b; c") == CaptionField("json", ("a.b", "c"))
    for wrong in ("caption", "json:", ":caption", "json:;", ""):
        with pytest.raises(ValueError, match="is not of the form"):
            parse_caption_field(wrong)
