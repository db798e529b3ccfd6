"""Limits of the scores of texts and headers.

Input just within a limit has a value, input just outside has none.
"""

import io
import json

import pytest

from tests.pictures import encoded, noise, photo
from tests.stages.scores.fields import Counting, made, of_text, score
from wdsflow.stages.imaging.scored_size import SCORED
from wdsflow.stages.scores import ScoreError, View, ViewOptions, make_score
from wdsflow.stages.scores.sample_fields import FieldFile
from wdsflow.stages.scores.tokenizer_limits import tokenizable, trim_cache
from wdsflow.stages.scores.words import juicer_words, words

MIB = 1 << 20


def slug(call, *arguments):
    with pytest.raises(ScoreError) as raised:
        call(*arguments)
    return raised.value.slug


@pytest.mark.parametrize("name", ["char_repetition", "word_repetition"])
def test_pieces_have_from_one_to_fifty_parts(name):
    parts = "ab" if name == "char_repetition" else " a b "
    assert [made(name, n=n).n for n in (1, 50)] == [1, 50]
    for n in (0, 51, -1):
        with pytest.raises(ValueError, match=rf"{name}: n={n} must be from 1 to 50"):
            make_score(name, n=n)
    assert of_text(name, parts * 25, n=50) == 0  # one piece
    # Three pieces, of which the first and the last are alike.
    assert of_text(name, parts * 26, n=50) == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("text", "n", "value"),
    [
        ("abc", 4, 0),
        ("abc", 3, 0),
        ("aaa", 1, 1),
        ("aab", 1, 2 / 3),
        ("aabb", 1, 2 / 4),  # two kinds: the square root of two is one
        ("aabbccdd", 1, 4 / 8),
        ("aaabbccdd", 1, 5 / 9),
        ("aaabcdefghi", 1, 3 / 11),
        ("Aa", 1, 0),
    ],
)
def test_the_most_repeated_pieces_are_as_many_as_the_root_of_the_distinct_ones(text, n, value):
    assert of_text("char_repetition", text, n=n) == pytest.approx(value)


def test_a_caption_is_tokenised_up_to_its_limits():
    for text in ("", "a" * 500, "a " * 10_000, f"{'a' * 500} {'b' * 500}"):
        assert tokenizable(text) is text
    for text in ("a" * 501, "a " * 10_000 + "b", f"cat {'a' * 501}"):
        assert slug(tokenizable, text) == "too-long"


def test_a_tokenizer_forgets_words_beyond_a_limit_and_keeps_its_marks():
    class Tokenizer:
        all_special_ids = (1, 2)

        def __init__(self, words):
            self.cache = {
                "<start>": 1,
                "<end>": 2,
                **{f"w{number}": "w" for number in range(words)},
            }

    full, more = Tokenizer((1 << 17) - 2), Tokenizer((1 << 17) - 1)
    for each in (full, more):
        trim_cache(each)
    assert (len(full.cache), more.cache) == (1 << 17, {"<start>": 1, "<end>": 2})
    trim_cache(object())


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"{'a' * 251}.jpg", True),
        (f"{'a' * 252}.jpg", False),
        (f"  {'a' * 251}.jpg\n", True),
        ("cat.jpg#top", True),
        ("a\ncat.jpg", False),
        ("cat.jpgx", False),
        ("12abc", False),
        ("123ab", True),
        ("12ab", False),
        ("123a", False),
        ("1234", False),
        ("12345", True),
        ("abc123", True),
        ("abcd123", False),
        ("abcdef1", False),
        ("abcdef12", True),
        ("deadbeef", False),
        ("12 345", False),
        ("IMG_1", True),
        ("IMG_1 copy", True),
        ("IMG_1 of a cat", False),
        ("IMG", False),
        ("scan #7", True),
    ],
)
def test_a_name_of_a_file_has_a_form_a_length_and_enough_digits(text, found):
    assert of_text("is_filename_like", text) is found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("x" * 61 + "a.com", True),
        ("a" + "x" * 61 + "a.com", True),
        ("a" + "x" * 62 + "a.com", False),
        ("a.b.c.d.com", True),
        ("shop.io", True),
        ("shop.xy", False),
        ("shop.xy/a", True),
        ("shop.xy/", False),
        ("shop.com-", False),
        ("shop.com_", False),
        ("-shop.com", False),
        ("shop-.com", False),
        ("shop.com.", True),
        ("https://", False),
        ("https:// a", False),
        ("http://a", True),
        ("www.a.b", True),
        ("www.a", False),
        ("xwww.a.b", False),
        ("shop.ac.jp", True),
    ],
)
def test_a_web_address_has_a_form(text, found):
    assert of_text("has_url", text) is found


@pytest.mark.parametrize(
    ("text", "plain", "juicer"),
    [
        ("a", ["a"], ["a"]),
        ("(a)", ["a"], ["a"]),
        ("(a", ["a"], ["a"]),
        ("a)b)", ["a)b"], ["a)b"]),
        ("\u2014 a\u2014b \u2014", ["\u2014", "a\u2014b", "\u2014"], ["a\u2014b"]),
        ("7up 3", ["7up", "3"], ["up"]),
        ("a\u00a0b", ["a", "b"], ["a\u00a0b"]),
        ("a\tb\nc  d", ["a", "b", "c", "d"], ["a", "b", "c", "d"]),
        ("\uff05 \u2236", ["\uff05", "\u2236"], ["\uff05", "\u2236"]),  # marks that its table lacks
        ("", [], []),
    ],
)
def test_words_lose_what_is_special_at_their_ends(text, plain, juicer):
    assert words(text) == plain
    assert juicer_words(text) == juicer


def test_a_list_of_words_has_a_size_at_most_and_is_read_without_its_mark(tmp_path):
    file = tmp_path / "words.txt"
    file.write_text("\ufeffspam\n  \n# none\nham# meat\n", encoding="utf-8")
    assert made("flagged_words", file=str(file)).words == ("ham", "spam")
    assert made("flagged_words", file=str(file), words="eggs").words == ("eggs", "ham", "spam")
    with file.open("wb") as stream:
        stream.truncate((64 << 20) + 1)
    with pytest.raises(ValueError, match=r"has 67,108,865 bytes, at most 67,108,864 are read"):
        make_score("flagged_words", file=str(file))


def test_a_caption_has_a_mebibyte_at_most():
    assert len(View({"txt": b"a" * MIB}).captions()[0]) == MIB
    assert slug(View({"txt": b"a" * (MIB + 1)}).captions) == "large-text"
    for size, large in ((MIB, False), (MIB + 1, True)):
        view = View({"json": json.dumps({"alt": ["b", "a" * size]}).encode()})
        if large:
            assert slug(view.captions, "json:alt") == "large-text"
        else:
            assert [len(text) for text in view.captions("json:alt")] == [1, MIB]


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32", "utf-32-be"]
)
def test_a_caption_is_read_by_its_byte_order_mark(encoding):
    marked = encoding in {"utf-8", "utf-8-sig", "utf-16", "utf-32"}
    text = "\u00dcber zwei K\u00e4tzchen \U0001f600"
    data = (text if marked else f"\ufeff{text}").encode(encoding)
    assert View({"txt": data}).captions() == [text]


@pytest.mark.parametrize(
    ("tree", "found"),
    [
        ({"alt": ["a", ["b"]]}, ["a"]),
        ({"alt": [["b"]]}, "no-caption"),
        ({"alt": []}, "no-caption"),
        ({}, "no-caption"),
        ([], "no-caption"),
        (
            {"alt": 5, "title": True},
            "not-text: 'json' holds no text under 'alt;title' but bool, int",
        ),
        ({"alt": {}, "title": "t"}, ["t"]),
        ({"alt": [1.5, "a"]}, ["a"]),
    ],
)
def test_a_caption_in_json_is_the_first_text_that_is_found(tree, found):
    view = View({"json": json.dumps(tree).encode()})
    if isinstance(found, list):
        assert view.captions("json:alt;title") == found
    else:
        with pytest.raises(ScoreError, match=found):
            view.captions("json:alt;title")


def test_a_field_is_read_within_its_budget_and_counted():
    fields = Counting({"bin": bytes(range(100))})
    view = View(fields, ViewOptions(budget=100))
    assert view.read("bin") == bytes(range(100))
    assert view.read("bin", 90, 50) == bytes(range(90, 100))
    assert (view.bytes_read, fields.reads) == (110, [("bin", 0, 100), ("bin", 90, 10)])
    small = View(fields, ViewOptions(budget=99))
    with pytest.raises(ScoreError, match="over-budget: it has 100 bytes; the budget is 99"):
        small.read("bin")
    # A part is asked for: it is paid elsewhere.
    assert small.read("bin", 0, 100) == bytes(range(100))
    with pytest.raises(ScoreError, match="no-json: no field 'json'; it has 'bin'"):
        view.json()


def test_a_field_as_a_file_is_read_where_it_is_asked_for():
    fields = Counting({"bin": bytes(range(100))})
    file = FieldFile(View(fields), "bin")
    whole = io.BytesIO(fields["bin"])
    assert file.readable()
    assert file.seekable()
    for offset, whence, size in (
        (10, 0, 5),
        (5, 1, 3),
        (-7, 2, 50),
        (0, 2, 4),
        (200, 0, 4),
        (-20, 1, 2),
        (0, 0, 100),
    ):
        assert file.seek(offset, whence) == whole.seek(offset, whence)
        assert file.read(size) == whole.read(size)
        assert file.tell() == whole.tell()
    assert file.seek(-500, 1) == 0
    assert sum(size for _, _, size in fields.reads) == 5 + 3 + 7 + 100


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((512, 512), (512, 512)),
        ((513, 513), (512, 512)),
        ((1024, 511), (512, 256)),
        ((1024, 509), (512, 255)),
        ((511, 1024), (256, 512)),
        ((509, 1024), (255, 512)),
        ((2048, 1), (512, 1)),
        ((1, 2048), (1, 512)),
        ((1, 1), (1, 1)),
    ],
)
def test_a_picture_is_made_smaller_to_whole_numbers(size, expected):
    assert SCORED.scaled(*size) == expected


@pytest.mark.parametrize(
    ("settings", "fits"),
    [
        ({"tolerance": 0}, True),
        ({"tolerance": 255}, True),
        ({"tolerance": 256}, False),
        ({"share": 1.0}, True),
        ({"share": 1e-9}, True),
        ({"share": 0.0}, False),
    ],
)
def test_the_ends_of_settings_of_blank_images(settings, fits):
    if fits:
        assert (
            score("is_blank", {"png": encoded(noise(4, 4).resize((1, 1)), "PNG")}, **settings)
            is True
        )
    else:
        with pytest.raises(ValueError, match=r"must be from (1e-09 to 1|0 to 255)$"):
            make_score("is_blank", **settings)


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"\x89PNG\r\n\x1a\n", "truncated"),
        (encoded(photo(), "JPEG")[:100], "truncated"),
        (encoded(photo(), "WEBP")[:16], "truncated"),
        (b"II*\0\x08\0\0\0\xff\xff", "undecodable"),
        (b"nothing", "not-an-image"),
    ],
)
def test_a_header_that_ends_early_has_a_name(data, found):
    assert slug(made("width").score, View({"jpg": data})) == found


def test_a_mode_that_a_header_does_not_tell_is_unknown():
    assert (
        slug(made("mode").score, View({"jpg": b'<svg xmlns="http://www.w3.org/2000/svg"></svg>'}))
        == "unknown-mode"
    )
