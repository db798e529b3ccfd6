"""Numbers, names and commands as text: both sides of each boundary."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsflow.text.shell import command, escape, quote, quote_path, without_middle
from wdsflow.text.words import (
    command_lines,
    duration,
    enumeration,
    how_many,
    location_text,
    number_text,
    plain_line,
    relative,
    roundest,
    roundest_after,
    short_name,
    size,
    unique,
    without_markup,
)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        *[
            (0, "0 bytes"),
            (1, "1 bytes"),
            (999, "999 bytes"),
            (1000, "1.0 kB"),
            (1049, "1.0 kB"),
            (9949, "9.9 kB"),
        ],
        *[
            (9950, "10 kB"),
            (999_499, "999 kB"),
            (999_500, "1.0 MB"),
            (12_345_678, "12 MB"),
            (3.2e9, "3.2 GB"),
        ],
        *[(999.4e12, "999 TB"), (999.5e12, "1.0 PB"), (2.5e15, "2.5 PB"), (1.2345e19, "12,345 PB")],
    ],
)
def test_a_size_has_two_or_three_digits_and_the_unit_that_fits(number, text):
    assert size(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *[
            (0, "0.00 s"),
            (0.994, "0.99 s"),
            (1, "1.0 s"),
            (9.94, "9.9 s"),
            (10, "10 s"),
            (119.4, "119 s"),
        ],
        *[
            (120, "2 min"),
            (89.6 * 60, "90 min"),
            (119 * 60, "119 min"),
            (120 * 60, "2 h 0 min"),
            (7_322, "2 h 2 min"),
        ],
        (100_000, "27 h 47 min"),
    ],
)
def test_a_duration_has_the_unit_that_fits(seconds, text):
    assert duration(seconds) == text


def test_a_noun_is_singular_for_one_alone():
    assert [how_many(n, "shard") for n in (0, 1, 2, 1000)] == [
        "0 shards",
        "1 shard",
        "2 shards",
        "1,000 shards",
    ]
    assert [how_many(n, "batch", "batches") for n in (1, 2)] == ["1 batch", "2 batches"]
    assert [enumeration(words) for words in ("", "a", "ab", "abc")] == [
        "",
        "a",
        "a and b",
        "a, b and c",
    ]
    assert unique(["b", "a", "b", "c", "a"]) == ["b", "a", "c"]


def test_a_shards_name_has_at_most_63_characters_and_keeps_its_number():
    assert short_name(f"out/{'a' * 59}.tar") == f"{'a' * 59}.tar"
    assert short_name(f"out/{'a' * 28}{'b' * 4}{'c' * 32}") == f"{'a' * 28}...{'c' * 32}"
    assert [
        short_name(url)
        for url in ("s3://b/0.tar", "a/b/", "a", "pipe:cat a/b.tar", "a\x1b.tar", "/")
    ] == [*("0.tar", "b", "a", "pipe:cat a/b.tar", "a\\x1b.tar", "/")]


def test_text_is_cut_only_beyond_its_limit():
    assert [escape(text, 5) for text in ("", "abcde", "abcdef", "été", "étéété")] == [
        "",
        "abcde",
        "ab...",
        "été",
        "ét...",
    ]
    assert [escape("abcdef", limit) for limit in (6, 4, 3, 2)] == ["abcdef", "a...", "...", "..."]
    assert escape("x" * 120) == "x" * 120
    assert escape("x" * 121) == "x" * 117 + "..."
    assert plain_line("x" * 2000) == "x" * 2000
    assert plain_line("x" * 2001) == "x" * 1997 + "..."
    assert [without_middle(text, 9) for text in ("abcdefghi", "abcdefghij")] == [
        "abcdefghi",
        "abc...hij",
    ]
    assert without_middle("abcdefghijkl", 10) == "abcd...jkl"
    assert without_middle("x" * 120) == "x" * 120
    assert len(without_middle("x" * 121)) == 120


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        *[
            ("\n", "\\n"),
            ("\r", "\\r"),
            ("\t", "\\t"),
            ("\0", "\\x00"),
            ("\x7f", "\\x7f"),
            ("\x9b", "\\x9b"),
        ],
        *[
            ("\u200b", "\\u200b"),
            ("\u2028", "\\u2028"),
            ("\u2029", "\\u2029"),
            ("\U000e0001", "\\U000e0001"),
        ],
        *[
            ("\udc80", "\\x80"),
            ("\udcff", "\\xff"),
            ("\udc7f", "\\udc7f"),
            ("\udd00", "\\udd00"),
            ("\ud800", "\\ud800"),
        ],
        *[
            ("\u00ad", "\\xad"),
            ("\u0600", "\\u0600"),
            ("\ufeff", "\\ufeff"),
            ("\ue000", "\ue000"),
            ("\u3000", "\u3000"),
        ],
    ],
)
def test_hidden_characters_are_spelled_out(text, shown):
    assert escape(f"a{text}b") == f"a{shown}b"
    assert escape(shown) == shown


@pytest.mark.parametrize(
    ("asked", "said", "shown"),
    [
        (("d/1.tar", "cat", 5120), "", "1.tar, sample cat, member at byte 5,120"),
        ((None, "cat", 5120), "", "sample cat"),
        (("d/1.tar", None, 0), "", "1.tar, byte 0"),
        (("d/1.tar", "cat", 5120), "1.tar: cat at 5,120", ""),
        (("d/1.tar", "cat", 5120), "at byte 5120 of concat", "1.tar, sample cat"),
        (("d/1.tar", "cat", None), "my.cat", "1.tar, sample cat"),
        (("d/1.tar", "cat", None), "(cat)", "1.tar"),
        (("d/1.tar", "123", None), "123 samples", "1.tar, sample 123"),
        (("d/1.tar", "1234", None), "1234 samples", "1.tar"),
        (("d/1.tar", "k" * 61, None), "", f"1.tar, sample {'k' * 57}..."),
    ],
)
def test_a_place_leaves_out_what_is_already_said(asked, said, shown):
    shard, key, offset = asked
    assert location_text(shard, key, offset, said) == shown


def test_a_path_is_relative_only_inside_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    inside = {
        "0.tar": "0.tar",
        "./s//0.tar": "s/0.tar",
        f"{tmp_path}/s/0.tar": "s/0.tar",
        "s/../0.tar": "0.tar",
    }
    inside |= {
        f"file:{tmp_path}/0.tar": "0.tar",
        f"file://{tmp_path}/0.tar": "0.tar",
        "c:0.tar": "c:0.tar",
    }
    outside = {
        "s3://b//0.tar": "s3://b//0.tar",
        "http://h/../0.tar": "http://h/../0.tar",
        "../0.tar": "../0.tar",
    }
    outside |= {
        f"{tmp_path.parent}/0.tar": f"{tmp_path.parent}/0.tar",
        "file:///etc/0.tar": "/etc/0.tar",
    }
    both = {**inside, **outside, "pipe:cat  a": "pipe:cat  a"}
    assert {url: relative(url) for url in both} == both


def test_code_in_a_docstring_is_quoted_unless_it_has_quotes():
    assert without_markup("``a`` and ``b('c')`` and ``d\ne``") == "'a' and b('c') and 'd\ne'"


def test_lines_of_a_command_are_never_cut():
    assert command_lines("") == []
    assert command_lines(f"{'a' * 300}\nb\tc") == ["a" * 300, "b\\tc"]


@given(st.text(st.characters(exclude_characters="\0"), min_size=1, max_size=6))
def test_a_quoted_word_is_one_line_that_a_shell_reads_as_the_word(word):
    quoted = quote(word)
    assert quoted.isprintable()
    if not quoted.startswith("$'"):
        assert shlex.split(quoted) == [word]
    elif word.isascii():
        assert quoted[2:-1].encode().decode("unicode_escape") == word


def test_bytes_and_controls_are_quoted_for_bash():
    words = ["a b", "a\nb\r\t'\\", "a\x1b~\x7f", "caf\udce9 é\u200b", "-x"]
    wanted = [
        "'a b'",
        r"$'a\nb\r\t\'\\'",
        r"$'a\x1b~\x7f'",
        r"$'caf\xe9 \xc3\xa9\xe2\x80\x8b'",
        "-x",
    ]
    assert [quote(word) for word in words] == wanted
    assert command(words) == " ".join(wanted)
    assert [quote_path(path) for path in ("-x", "x", "- x")] == ["./-x", "x", "'./- x'"]


@given(st.floats(-1e6, 1e6, allow_subnormal=False), st.floats(1e-6, 1e6))
def test_a_round_number_lies_in_its_range(low, width):
    high = low + width
    if low < high:
        assert low <= roundest(low, high) < high
        assert -high < roundest_after(-high, -low) <= -low


@pytest.mark.parametrize(
    ("low", "high", "found"),
    [
        *[
            (0.0, 1.0, 0.0),
            (-1.0, 0.0, -1.0),
            (-0.5, 0.5, 0.0),
            (1.0, 2.0, 1.0),
            (0.11, 0.9, 0.5),
            (0.51, 0.9, 0.6),
        ],
        *[
            (17.0, 19.5, 18.0),
            (17.0, 23.0, 20.0),
            (0.121, 0.129, 0.125),
            (0.1, 0.1, 0.1),
            (96.0, 104.0, 100.0),
        ],
        *[
            (float("-inf"), 3.0, 0.0),
            (3.0, float("inf"), 3.0),
            (-7.3, -6.6, -7.0),
            (1e-9, 1.5e-9, 1e-9),
        ],
    ],
)
def test_the_roundest_number_is_the_multiple_of_the_largest_step(low, high, found):
    assert roundest(low, high) == found
    if low > 0 or high < 0:
        assert roundest_after(-high, -low) == -found


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0"),
        (-3.0, "-3"),
        (0.5, "0.5"),
        (1e14, "100000000000000"),
        (1e15, "1000000000000000.0"),
        (1e16, "1e+16"),
    ],
)
def test_a_number_has_no_needless_digits(number, text):
    assert number_text(number) == text
    assert float(text) == number
