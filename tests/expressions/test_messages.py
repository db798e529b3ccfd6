"""What is wrong with an expression: its position, and what to write instead."""

import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.expressions import drawing
from tests.expressions.catalog import CATALOG
from tests.golden_file import check_text
from wdsflow.expressions.errors import ExpressionError
from wdsflow.expressions.parsing import parse, parse_number, parse_score
from wdsflow.text.shell import escape

GOLDEN = Path(__file__).parent / "messages.txt"
DRAWN = Path(__file__).parent / "drawn_errors.txt"

ERRORS = [
    ("", 1, "the predicate is empty"),
    ("  \n", 1, "write for example: width >= 200; or: True"),
    ("()", 1, "write for example: width >= 200; or: True"),
    # Types.
    ("width", 1, "compare it, as in width >= 1"),
    ("caption", 1, "compare it, as in caption == 'text'"),
    ("duplicate > 0.5", 1, "write `duplicate` or `not duplicate`"),
    ("duplicate == 0", 1, "write `duplicate` or `not duplicate`"),
    ("3 == duplicate", 1, "write `duplicate` or `not duplicate` without a comparison"),
    ("True == 1", 1, "leave the comparison out"),
    ("duplicate < has_url", 1, "has no order"),
    ("caption > 5", 1, "or length(caption) for its characters"),
    ("width == '200'", 1, "write 200 without quotes"),
    ("caption == width", 1, "length(caption)"),
    ("width in ('a', 'b')", 1, "width is a number, but 'a' is a text"),
    ("width + caption > 3", 9, "length(...) and words(...) turn a text into a number"),
    ("not width", 5, "`not` takes a condition"),
    ("duplicate and width", 15, "`and` takes a condition"),
    ("1 if width else 2", 6, "`if` takes a condition"),
    ("(1 if has_url else 'a') == 1", 2, "1 is a number, but 'a' is a text"),
    # Names.
    ("widht > 3", 1, "did you mean width?"),
    ("WIDTH > 3", 1, "did you mean width?"),
    ("lowr(caption) == 'a'", 1, "lower is a function"),
    ("lower == 'a'", 1, "lower is a function: write lower(...)"),
    ("len(caption) > 3", 1, "write length(...)"),
    ("qqq > 3", 1, "all scores: wdsflow scores"),
    ("ＡＮＤ", 1, "write and in lower case"),
    # Old spellings.
    ("width between 1 and 3", 7, "write a chain of comparisons: 200 <= width <= 4000"),
    ("width not between 1 and 3", 11, "write a chain of comparisons"),
    ("width is null", 10, "write `width is None` or `width is not None`"),
    ("width is not null", 14, "write `width is None` or `width is not None`"),
    ("width is nothing", 10, "compare values with =="),
    ("width == null", 10, "write `width is None` or `width is not None`"),
    ("None != width", 1, "write `width is None` or `width is not None`"),
    ("null", 1, "write `x is None` or `x is not None`"),
    ("true", 1, "write True"),
    ("not false", 5, "write False"),
    ("has_url and TRUE", 13, "write True"),
    ("width && height", 7, "write and"),
    ("has_url & duplicate", 9, "write and"),
    ("width || height", 7, "write or"),
    ("has_url | duplicate", 9, "write or"),
    ("!duplicate", 1, "write not"),
    ("~duplicate", 1, "write not"),
    ("width <> 3", 7, "write !="),
    ("width => 3", 7, "write >="),
    ("width = 3", 7, "write =="),
    ("width === 3", 7, "write =="),
    ("width ** 2 > 3", 7, "multiply instead"),
    ("width ^ 2 > 3", 7, "multiply instead"),
    ("duplicate aNd width > 3", 11, "write and in lower case"),
    ("width > 3 or height > 3 Not", 25, "found `Not`, expected `and`, `or` or the end"),
    ("caption like '%cat%'", 9, "contains(caption, 'cat')"),
    ("caption LIKE '%cat%'", 9, "contains(caption, 'cat')"),
    ("caption.lower() == 'x'", 8, "write lower(caption)"),
    ("caption.startswith('x')", 8, "write startswith(caption, ...)"),
    ("bytes < 120KiB", 9, "write 120 * KiB"),
    ("bytes < 1.5mb", 9, "write 1.5 * MB"),
    ("bytes < 1.5 MB", 13, "write 1.5 * MB"),
    ("bytes < 200k", 9, "write 200 * KiB (1024) or 200 * KB (1000)"),
    ("bytes < 200XB", 9, "no such unit"),
    ("bytes < 200B", 9, "write 200"),
    ("any(width) > 3", 1, "write any(width > 3)"),
    ("all(caption) == 'a'", 1, "write all(caption == 'a')"),
    ("any(width)", 5, "write it as any(width > 0)"),
    ("any(width) and has_url", 5, "write it as any(width > 0)"),
    ("any(x > 1 for x in width)", 4, "write any(width > 200)"),
    ("width[0] > 3", 1, "write any(...), min(...) or max(...) for one of several items"),
    ("[width] == 3", 1, "write a list after `in`"),
    ("width in {1: 2}", 10, "write a list as (1, 2, 3)"),
    ("caption == f'a'", 12, "write 'text'"),
    ("(a := width) > 3", 2, "write the value where it is needed"),
    ("(lambda: width) == 3", 2, "a custom score can: wdsflow scores"),
    ("max(*width) > 3", 5, "write the values one by one"),
    ("await width", 1, "await is not supported"),
    ("(yield) == 3", 2, "yield is not supported"),
    ("width(1)(2) > 3", 1, "all scores: wdsflow scores"),
    ("caption == 'it''s'", 12, "write \\' for a quote"),
    ("caption == 'it' 's' and and", 17, "write \\' for a quote"),
    ("caption == 'it' 3", 17, "found `3`, expected `and`, `or` or the end"),
    ("None and width > 3", 1, "None is no value\n"),
    ("like(caption, 'cat')", 1, "write contains(caption, 'cat'), startswith(...), or matches("),
    ("language in ('en')", 14, "write ('en',)"),
    ("matches(caption, '\\bcat\\b')", 18, "write r'\\bcat\\b'"),
    # Numbers and texts.
    ("width > 1,000", 10, "1000 or 1_000"),
    ("width > 1__0", 9, "write 10"),
    ("width > 0123", 9, "write 123"),
    ("width > 1e999", 9, "too large"),
    ("width > 1e200 * 1e200", 9, "too large"),
    ("width > 9007199254740993", 9, "write 9007199254740992"),
    ("width > " + "9" * 50, 9, "more than 40 characters"),
    ("width > " + "9" * 5000, 9, "more than 40 characters"),
    ("width > 3abcdefghijk", 9, "a number and a name without a sign between them"),
    ("width / 0 > 1", 9, "a division by zero"),
    ("width % (1 - 1) > 1", 10, "a division by zero"),
    ("caption == 'it", 12, "end it with '"),
    ("caption == “it”", 12, "straight quotes"),
    ("caption == '''a'''", 12, "a text in three quotes"),
    ("caption == 'a\x1b'", 14, "a control character"),
    ("caption == '\\x1b'", 12, "a control character inside of a text"),
    ("width > ٣", 9, "arabic-indic digit three"),
    # Lists.
    ("width in (1, height)", 14, "expected a list of constants"),
    ("width in (1, None)", 14, "nothing is equal to a missing value"),
    ("width not in ()", 14, "an empty list"),
    ("width in 3", 10, "write x in (1, 2, 3)"),
    ("width in {1, 2}", 10, "write a list as (1, 2, 3)"),
    ("1 < width in (1, 2)", 14, "put the comparison in parentheses"),
    # What is missing or too much.
    ("width >", 8, "the predicate ends, expected a value"),
    ("width > and height > 3", 9, "found `and`, expected a value"),
    ("and width > 1", 1, "found `and`"),
    ("width > 2 3", 11, "found `3`"),
    ("(width > 3", 11, "expected a closing parenthesis"),
    ("width > 3)", 10, "a closing parenthesis too many"),
    ("width > 3) or (width > 4", 10, "a closing parenthesis too many"),
    ("width > 3; drop", 10, "one predicate only"),
    ("width > 3 height", 11, "expected `and`, `or` or the end"),
    # Functions and settings.
    ("any() > 3", 1, "any takes 1 value, not 0"),
    ("min(width, height) > 3", 1, "combines the images or captions of one sample"),
    ("matches(caption, key)", 18, "must be a constant"),
    ("contains(caption)", 1, "contains takes 2 values, not 1"),
    ("contains(width, 'a')", 10, "contains takes a text here, but width is a number"),
    ("lower(text=caption) == 'a'", 7, "lower has no settings"),
    ("near_duplicate(6)", 16, "write near_duplicate(setting=value)"),
    ("near_duplicate(distanse=6)", 16, "did you mean distance?"),
    ("near_duplicate(distance='6')", 16, 'is a number, not "6"'),
    ("near_duplicate(distance=True)", 16, "is a number, not True"),
    ("near_duplicate(distance=-1)", 1, "a distance cannot be negative: -1"),
    ("near_duplicate(distance==1)", 16, "a setting is written with one ="),
    ("near_duplicate(distance=1, distance=1)", 28, "is given twice"),
    ("near_duplicate(distance=)", 25, "expected a value"),
    ("zero_shot(labels=()) > 0.5", 18, "an empty list"),
    ("zero_shot(exact=1) > 0.5", 11, "exact of zero_shot is True or False, not 1"),
    ("has()", 1, "has needs its field"),
    ("has", 1, "write has(field=...)"),
    ("has(3)", 5, "field of has is a text, not 3"),
    ("json_number > 1", 1, "json_number needs its path"),
]


def error_of(text: str) -> ExpressionError:
    with pytest.raises(ExpressionError) as caught:
        parse(text, CATALOG)
    return caught.value


@pytest.mark.parametrize(("text", "column", "words"), ERRORS)
def test_an_error_points_at_its_position_and_says_what_to_write(
    text: str, column: int, words: str
) -> None:
    error = error_of(text)
    assert (error.column, words in str(error)) == (column, True), str(error)


def test_errors_are_these() -> None:
    lines = [f"{text[:60]!r}\n{error_of(text)}" for text, *_ in ERRORS]
    check_text(GOLDEN, "errors", "\n".join(lines))


@pytest.mark.parametrize(
    "text", ["bytes < 120KiB", "width between 200 and 4000", "!duplicate", "language in ('en')"]
)
def test_what_a_hint_says_to_write_can_be_written(text: str) -> None:
    hint = error_of(text).hint.removeprefix("write ").removeprefix("a chain of comparisons: ")
    replaced = {
        "bytes < 120KiB": f"bytes < {hint}",
        "width between 200 and 4000": hint,
        "!duplicate": f"{hint} duplicate",
        "language in ('en')": f"language in {hint}",
    }
    parse(replaced[text], CATALOG)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("'猫' in caption and ", ""),
        ("'é😀' != key and\n  'ß' in caption and ", ""),
        ("(", " or '猫' in key)"),
    ],
)
@pytest.mark.parametrize(
    "wrong", ["heigth > 4", "near_duplicate(distanse=6)", "width ** 2 > 3", "width and has_url"]
)
def test_other_characters_before_it_do_not_move_the_mark(
    before: str, after: str, wrong: str
) -> None:
    alone, error = error_of(wrong), error_of(before + wrong + after)
    assert error.text[error.start : error.end] == alone.text[alone.start : alone.end]
    assert error.start == alone.start + len(before)


@pytest.mark.parametrize(
    "text",
    [
        "'猫' in caption and width > 3)",
        "'猫' in caption and width > and has_url",
        "'é' in caption !",
    ],
)
def test_nor_that_of_a_syntax_error(text: str) -> None:
    error = error_of(text)
    assert text[error.start : error.end] == {")": ")", "l": "and", "!": "!"}[text[-1]]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_position_in_several_lines(end: str) -> None:
    text = f"width > 3 and{end}  'é' in caption{end}  and heigth > 4"
    error = error_of(text)
    assert text[error.start : error.end] == "heigth"


def test_the_caret_is_under_the_position_in_the_line() -> None:
    lines = str(error_of("width > 3 and\n  '猫' in caption and heigth > 4")).splitlines()
    assert lines[0] == "where, line 2, column 22: no score is called 'heigth'"
    assert lines[1] == "      '猫' in caption and heigth > 4"
    assert lines[2] == "    " + " " * 22 + "^^^^^^"
    assert lines[3] == "  did you mean height?"


def test_an_error_shows_no_control_characters_and_goes_to_other_processes() -> None:
    error = error_of("width > 3 and \x1b[31m\u202e")
    assert "\x1b" not in str(error)
    assert "\u202e" not in str(error)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_an_error_in_a_long_expression_stays_short() -> None:
    error = error_of("width > 3 and " * 200 + "x" * 5000 + " > 3")
    assert all(len(line) < 400 for line in str(error).splitlines())


def test_a_score_alone_and_a_number_alone_are_read_too() -> None:
    assert (
        str(parse_score(" near_duplicate( distance = 4 )", CATALOG)) == "near_duplicate(distance=4)"
    )
    with pytest.raises(ExpressionError, match="width > 3 is not the name of a score"):
        parse_score("width > 3", CATALOG)
    assert str(parse_number("width/height", CATALOG)) == "width / height"
    with pytest.raises(ExpressionError, match="it is a condition, not a number"):
        parse_number("width > 3", CATALOG)


FRAGMENTS = (
    "width height duplicate caption key has near_duplicate any all mean min max lower matches contains length between "
    "and or not in is null None true True False AND LIKE if else = == != < <= > >= + - * / // % ( ) , . ; ! & | ' \" '' "
    "\"a\" 'b' 0 1 -2 .5 1.5MB KiB 7k 1e9 distance \\ \n # $ @ é 猫 \x00 \x1b \u202e ` [ ] { } => <> ** ~ ^ : ? := lambda"
).split(" ")


def check_only_expression_errors(text: str) -> None:
    refused: ExpressionError | None = None
    try:
        expression = parse(text, CATALOG)
    except ExpressionError as error:
        refused = error
    if refused is None:
        assert parse(str(expression), CATALOG) == expression
        return
    assert 1 <= refused.column <= len(text) + 1
    assert all(line == escape(line, limit=len(line)) for line in str(refused).splitlines())


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=14).map(" ".join) | st.text(max_size=40))
def test_no_text_raises_anything_else(text: str) -> None:
    check_only_expression_errors(text)


@given(st.randoms(use_true_random=False), st.data())
def test_no_damage_to_an_expression_raises_anything_else(random, data) -> None:
    text = drawing.expression(random)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(start + 5, len(text))))
    check_only_expression_errors(
        text[:start] + data.draw(st.sampled_from(["", *FRAGMENTS])) + text[end:]
    )


# 400 characters, none of which is like its neighbours.
LINE = "".join(f"{number:04d} " for number in range(80))


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
def test_the_position_of_an_error_is_drawn(text: str, start: int, end: int) -> None:
    error = ExpressionError(text, start, end, "wrong", "write it right")
    check_text(
        DRAWN,
        f"{text[:9]!r} {start} {end}",
        f"{error.line} {error.column} {error.start} {error.end}\n{error}",
    )
