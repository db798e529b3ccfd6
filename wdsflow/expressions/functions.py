"""The functions of expressions, and their SQL; the names of sizes."""

from typing import NamedTuple

from .score_call import Kind

# White space as Python's str.split() and str.strip()
# understand it, as a class of RE2 without brackets.
_WHITE_SPACE = r"\s\x0b\x1c-\x1f\x85\pZ"

# Bytes: ``120 * KiB``.
SIZES = {
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "TiB": 1 << 40,
}

# Other names of the functions in ``FUNCTIONS``, in Python or DuckDB -> our name.
OTHER_NAMES = {
    "len": "length",
    "char_length": "length",
    "starts_with": "startswith",
    "ends_with": "endswith",
    "trim": "strip",
    "regexp_matches": "matches",
    "search": "matches",
    "match": "matches",
    "avg": "mean",
    "casefold": "lower",
}


class Function(NamedTuple):
    """A function.

    ``takes`` are the types of its arguments; ``sql`` has them as ``{0}`` and ``{1}``.
    """

    takes: tuple[Kind, ...]
    kind: Kind
    sql: str
    about: str


FUNCTIONS: dict[str, Function] = {
    "lower": Function(
        ("text",), "text", "lower({0})", "the text in lower case, character by character"
    ),
    "upper": Function(
        ("text",), "text", "upper({0})", "the text in upper case, character by character"
    ),
    "strip": Function(
        ("text",),
        "text",
        f"regexp_replace({{0}}, '^[{_WHITE_SPACE}]+|[{_WHITE_SPACE}]+$', '', 'g')",
        "the text without white space at its ends",
    ),
    "contains": Function(
        ("text", "text"), "boolean", "contains({0}, {1})", "whether a text contains another"
    ),
    "startswith": Function(
        ("text", "text"), "boolean", "starts_with({0}, {1})", "whether a text starts with another"
    ),
    "endswith": Function(
        ("text", "text"), "boolean", "suffix({0}, {1})", "whether a text ends with another"
    ),
    "matches": Function(
        ("text", "text"),
        "boolean",
        "regexp_matches({0}, {1})",
        "whether a regular expression (RE2) matches anywhere in a text",
    ),
    # As floats, like all numbers: products of integers could overflow.
    "length": Function(
        ("text",), "number", "length({0})::DOUBLE", "characters (code points) of a text"
    ),
    "words": Function(
        ("text",),
        "number",
        f"len(regexp_extract_all({{0}}, '[^{_WHITE_SPACE}]+'))::DOUBLE",
        "words of a text, separated by white space",
    ),
    "abs": Function(("number",), "number", "abs({0})", "a number without its sign"),
    "round": Function(
        ("number",), "number", "round_even({0}, 0)", "the nearest whole number, of two the even one"
    ),
}
