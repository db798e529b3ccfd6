import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsflow.scan.content.text_content import decode_json, texts_in
from wdsflow.scan.tallies import TALLIES

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
DOCUMENTS = st.builds(
    lambda value, ascii_only, encoding: json.dumps(value, ensure_ascii=ascii_only).encode(
        encoding, "surrogatepass"
    ),
    VALUES,
    st.booleans(),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"]),
)
NEAR_MISSES = st.lists(
    st.sampled_from(
        b'{ } [ ] " : , 0 1 -1 1e5 1. .5 01 true null nan NaN Infinity -Infinity \\u00e9 \\ud800 \\x \xff \n \0'.split(
            b" "
        )
    ),
    max_size=8,
).map(b"".join)


def by_json(data):
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return ValueError


def same(left, right):
    return repr(left) == repr(right)  # NaN is not equal to itself


@given(DOCUMENTS | NEAR_MISSES | st.binary(max_size=12))
def test_a_field_is_bad_exactly_where_json_refuses_it(data):
    status, notes, value = decode_json(data, ())
    expected = by_json(data)
    assert TALLIES.keys() >= set(notes)
    if expected is ValueError:
        assert (status, notes, value) == ("bad", ("json.bad",), None)
    elif isinstance(expected, dict):
        assert (status, notes) == ("ok", ())
        assert same(value, expected)
    else:
        assert (status, notes, value) == ("ok", ("json.not-object",), None)


@pytest.mark.parametrize(
    "data",
    [
        b"9" * 4300,
        b"9" * 4301,
        b"[" + b"1" * 5000 + b"]",
        b'{"digits": "' + b"1" * 5000 + b'"}',
        b"1." + b"3" * 5000,
        b"1e400",
        b'{"a": 1, "a": 2}',
        b"[" * 900 + b"]" * 900,
        b"[" * 1100 + b"]" * 1100,
        b'{"a":' * 1100 + b"1" + b"}" * 1100,
        b'{"a": "' + b"[" * 5000 + b'"}',
    ],
)
def test_the_limits_are_those_of_json(data):
    status, _, _ = decode_json(data, ())
    assert (status == "bad") == (by_json(data) is ValueError)


@pytest.mark.parametrize(
    "data", [b"[" * 1_000_000, b'{"a":' * 1_000_000, b"[" * 1_000_000 + b"]" * 1_000_000]
)
def test_a_million_levels_are_reported_and_nothing_else_happens(data):
    status, notes, value = decode_json(data, ("caption",))
    assert status == "bad"
    assert notes in (("json.deep",), ("json.bad",))
    assert value is None


@pytest.mark.parametrize(
    ("data", "wanted", "status"),
    [
        (b'{"caption": "a dog"}', ("caption",), "ok"),
        (b'{"caption": "", "alt": "a dog"}', ("caption", "alt"), "ok"),
        (b'{"caption": " \\n\\u3000"}', ("caption",), "no-caption"),
        (b'{"caption": 5}', ("caption",), "no-caption"),
        (b'{"caption": ["a dog"]}', ("caption",), "no-caption"),
        (b'{"caption": {"text": "a dog"}}', ("caption", "text"), "no-caption"),
        (b'{"text": "a dog"}', ("caption",), "no-caption"),
        (b'["caption"]', ("caption",), "no-caption"),
        (b'{"caption": "a dog"', ("caption",), "bad"),
        (b"{}", (), "ok"),
    ],
)
def test_a_caption_is_a_string_with_more_than_white_space(data, wanted, status):
    assert decode_json(data, wanted)[0] == status


def test_the_recursion_limit_is_left_alone():
    limit = sys.getrecursionlimit()
    decode_json(b"[" * 100_000, ())
    assert sys.getrecursionlimit() == limit


def test_a_name_with_a_dot_inside_of_an_object_is_on_no_path():
    value = {"a.b": "one", "a": {"c.d": "two", "e": {"f.g": "three", "h": "four"}}, "i": ["five"]}
    assert texts_in(value) == [
        ("a.b", "one", True),
        ("a", "", False),
        ("a.e", "", False),
        ("a.e.h", "four", False),
        ("i", "five", False),
    ]
