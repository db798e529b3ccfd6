import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.filtering.where.predicates import SCORES, predicates
from tests.golden_file import check_text
from wdsflow.filtering.where.predicate import parse
from wdsflow.filtering.where.predicate_planner import plan
from wdsflow.filtering.where.tokens import WhereError
from wdsflow.text.shell import escape

DRAWN = Path(__file__).parent / "drawn_errors.txt"


def error_of(text: str) -> WhereError:
    with pytest.raises(WhereError) as caught:
        parse(text, SCORES)
    return caught.value


ERRORS = [
    ("", 1, "the predicate is empty"),
    ("  \n", 1, "the predicate is empty"),
    ("width", 1, "compare it, as in width >= 1"),
    ("caption", 1, "compare it, as in caption == 'text'"),
    ("widht > 3", 1, "did you mean width?"),
    ("WIDTH > 3", 1, "did you mean width?"),
    ("lowr(caption) == 'a'", 1, "lower is a function"),
    ("lower == 'a'", 1, "lower is a function: write lower(...)"),
    ("qqq > 3", 1, "all scores: wdsflow scores"),
    ("width >", 8, "the predicate ends, expected a value"),
    ("width > and height > 3", 9, "found `and`, expected a value"),
    ("and width > 1", 1, "found `and`"),
    ("duplicate > 0.5", 1, "write `duplicate` or `not duplicate`"),
    ("duplicate == 0", 1, "write `duplicate` or `not duplicate`"),
    ("duplicate < has_url", 1, "has no order"),
    ("caption > 5", 1, "or length(caption) for its characters"),
    ("width == '200'", 1, "write 200 without quotes"),
    ("caption == width", 1, "length(caption)"),
    ("width in ('a', 'b')", 1, "width is a number, but 'a' is a text"),
    ("width in (1, height)", 14, "expected a list of constants"),
    ("width in ()", 11, "expected a list of constants"),
    ("width in 3", 10, "write x in (1, 2, 3)"),
    ("width + caption > 3", 9, "length(...) and words(...) turn a text into a number"),
    ("not width", 5, "`not` takes a condition"),
    ("duplicate and width", 15, "`and` takes a condition"),
    ("width && height", 7, "write and"),
    ("width || height", 7, "write or"),
    ("!duplicate", 1, "write not"),
    ("width <> 3", 7, "write !="),
    ("width => 3", 7, "write >="),
    ("width ** 2 > 3", 7, "multiply instead"),
    ("width is nothing", 10, "expected `null` or `not null`"),
    ("width == null", 10, "write `x is null`"),
    ("caption like '%cat%'", 9, "contains(caption, 'cat')"),
    ("caption LIKE '%cat%'", 9, "contains(caption, 'cat')"),
    ("caption.lower() == 'x'", 8, "a dot has no meaning here"),
    ("width > 1,000", 10, "1000 or 1_000"),
    ("width > 1__0", 9, "write 10"),
    ("bytes < 1.5 MB", 13, "write a size without a space: 1.5MB"),
    ("bytes < 200k", 9, "write '200KiB' (1024) or '200KB' (1000)"),
    ("bytes < 200XB", 9, "no such unit"),
    ("bytes < 1e3KB", 9, "a size needs digits"),
    ("width > 1e999", 9, "too large"),
    ("width > " + "9" * 50, 9, "more than 40 characters"),
    ("width > 2 3", 11, "found `3`"),
    ("(width > 3", 11, "expected a closing parenthesis"),
    ("width > 3)", 10, "a closing parenthesis too many"),
    ("any(width)", 1, "write it as any(width > 0)"),
    ("any(width) + 1 > 3", 1, "write it as any(width > 0)"),
    ("any(width) > all(height)", 14, "write any(a > b)"),
    ("any(caption)", 1, "write it as any(caption == 'text')"),
    ("any(caption) in any(key)", 17, "write it as any(key == 'text')"),
    ("any() > 3", 1, "any takes 1 value, not 0"),
    ("min(width, height) > 3", 1, "combines the images or texts of one sample"),
    ("width between 9 and 3", 21, "write the smaller value first"),
    ("width between 3", 16, "expected `and` and the upper end"),
    ("width / 0 > 1", 9, "a division by zero"),
    ("matches(caption, '(?=x)')", 18, "RE2"),
    ("matches(caption, '((a{999}){999}){999}')", 18, "not a regular expression"),
    ("matches(caption, key)", 18, "must be a constant"),
    ("contains(caption)", 1, "contains takes 2 values, not 1"),
    ("contains(width, 'a')", 10, "contains takes a text here, but width is a number"),
    ("near_duplicate(6)", 16, "write near_duplicate(setting=value)"),
    ("near_duplicate(distanse=6)", 16, "did you mean distance?"),
    ("near_duplicate(distance='6')", 16, 'is a number, not "6"'),
    ("near_duplicate(distance=-1)", 1, "a distance cannot be negative: -1"),
    ("near_duplicate(distance==1)", 24, "a setting is written with one ="),
    ("near_duplicate(distance=1, distance=1)", 28, "is given twice"),
    ("has()", 1, "has needs its field"),
    ("has(3)", 5, "field of has is a text, not 3"),
    ("caption == 'it''s'", 16, "write \\' for a quote"),
    ("caption == 'it", 12, "end it with '"),
    ("caption == “it”", 12, "straight quotes"),
    ("caption == 'a\x1b'", 14, "a control character"),
    ("width > ٣", 9, "arabic-indic digit three"),
    ("ＡＮＤ", 1, "no score is called"),
    ("width > 3; drop", 10, "one predicate only"),
    ("duplicate aNd width > 3", 11, "write and in lower case"),
    ("width > 3 or height > 3 Not", 25, "found `Not`, expected `and`, `or` or the end"),
    ("width > 3 height", 11, "expected `and`, `or` or the end"),
    ("width > 3abcdefghijk", 9, "a number and a name without a sign between them"),
    ("width > 3abcdefghij", 9, "no such unit"),
    ("true < duplicate", 1, "leave the comparison out"),
    ("true == 1", 1, "leave the comparison out"),
    ("3 == duplicate", 1, "write `duplicate` or `not duplicate` without a comparison"),
    ("near_duplicate(distance=true)", 16, "is a number, not true"),
    ("has(true)", 5, "field of has is a text, not true"),
]


@pytest.mark.parametrize(("text", "column", "words"), ERRORS)
def test_an_error_points_at_its_place_and_says_what_to_write(text, column, words):
    error = error_of(text)
    assert error.column == column
    assert words in str(error)


def test_the_caret_stands_under_the_place_in_the_line():
    lines = str(error_of("width > 3 and\n  '猫' in caption and heigth > 4")).splitlines()
    assert lines[0] == "where, line 2, column 22: no score is called 'heigth'"
    assert lines[1] == "      '猫' in caption and heigth > 4"
    assert lines[2] == "    " + " " * 22 + "^^^^^^"
    assert lines[3] == "  did you mean height?"


def test_an_error_shows_no_control_characters_and_goes_to_other_processes():
    error = error_of("width > 3 and \x1b[31m\u202e")
    assert "\x1b" not in str(error)
    assert "\u202e" not in str(error)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_an_error_in_a_long_predicate_stays_short():
    error = error_of("width > 3 and " * 200 + "x" * 5000 + " > 3")
    assert all(len(line) < 400 for line in str(error).splitlines())


@pytest.mark.parametrize(
    "text",
    [
        "(" * 10_000 + "width > 1",
        "not " * 10_000 + "duplicate",
        "- " * 10_000 + "width > 1",
        " + ".join(["width"] * 10_000) + " > 1",
        "any(" * 10_000 + "duplicate" + ")" * 10_000,
        "lower(" * 10_000 + "caption" + ")" * 10_000 + " == 'a'",
        "((width + 1) * 2 - 1) / 3 > 0 and ".replace("width", "(" * 60 + "width" + ")" * 60) + "true",
    ],
)
def test_nesting_has_an_end(text):
    assert "nested more than 50 levels deep" in str(error_of(text))


@pytest.mark.parametrize(
    "text",
    [
        "(" * 49 + "width > 1" + ")" * 49,
        "not " * 47 + "width > 1",
        "any(" * 47 + "width > 1" + ")" * 47,
        " + ".join(["width"] * 48) + " > 1",
        "true != (" * 24 + "width > 1" + ") == true" * 24,
        "true != (" * 24 + "width > 1 or duplicate" + ") == true" * 24,
    ],
)
def test_what_is_nested_less_can_be_used(text):
    where = parse(text, SCORES)
    assert parse(str(where), SCORES) == where
    assert pickle.loads(pickle.dumps(where)) == where
    assert hash(where) == hash(parse(text, SCORES))
    assert plan(where).drive(lambda call: 2)[0].settled


def test_a_predicate_has_a_most_of_terms_and_of_characters():
    assert "more than 256 terms" in str(error_of(" and ".join(f"width > {number}" for number in range(300))))
    assert "longer than" in str(error_of("width in (" + "1," * 600_000 + "1)"))
    assert len(parse("key in (" + ",".join(f"'{number:09}'" for number in range(20_000)) + ")", SCORES).terms) == 1


FRAGMENTS = (
    "width height duplicate caption key has near_duplicate any all mean min max lower matches contains length between "
    "and or not in is null true false AND LIKE = == != < <= > >= + - * / // % ( ) , . ; ! & | ' \" '' \"a\" 'b' 0 1 -2 "
    ".5 1.5MB 1KiB 7k 1e9 distance \\ \n # $ @ é 猫 \x00 \x1b \u202e ` [ ] { } => <> ** ~ ^ : ?"
).split(" ")


def check_only_where_errors(text: str) -> None:
    error = None
    try:
        where = parse(text, SCORES)
    except WhereError as raised:
        error = raised
    if error is None:
        assert parse(str(where), SCORES) == where
    else:
        assert 1 <= error.column <= len(text) + 1
        assert all(line == escape(line, limit=len(line)) for line in str(error).splitlines())


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=14).map(" ".join) | st.text(max_size=40))
def test_no_text_raises_anything_else(text):
    check_only_where_errors(text)


def test_a_control_character_behind_a_backslash_is_refused():
    assert "control character" in str(error_of("matches(caption, '\\\0')"))


@given(predicates, st.data())
def test_no_damage_to_a_predicate_raises_anything_else(text, data):
    at = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(at, min(at + 5, len(text))))
    check_only_where_errors(text[:at] + data.draw(st.sampled_from(["", *FRAGMENTS])) + text[end:])


LINE = "".join(f"{number:04d} " for number in range(80))  # 400 characters, none of which stands for its neighbour


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("a b", 2, 3),
        ("a b", 3, 3),
        ("a b", 7, 9),
        ("a b", 2, 1),
        ("a\nbc d\ne", 5, 6),
        ("a\nbc d\ne", 2, 9),
        ("a\n", 2, 2),
        (LINE, 59, 60),
        (LINE, 60, 61),
        (LINE, 61, 62),
        (LINE, 100, 130),
        (LINE, 100, 380),
        (LINE, 339, 340),
        (LINE, 340, 340),
        (LINE, 341, 345),
        (f"x\n{LINE}\ny", 70, 75),
        ("猫猫 e\u0301e\u0301 > x", 8, 9),
        ("a 猫猫é > x", 2, 5),
        ("a \x1b[31m\t> x", 9, 10),
    ],
)
def test_the_place_of_an_error_is_drawn(text: str, start: int, end: int) -> None:
    error = WhereError(text, start, end, "wrong", "write it right")
    check_text(DRAWN, f"{text[:9]!r} {start} {end}", f"{error.line} {error.column} {error.start} {error.end}\n{error}")
