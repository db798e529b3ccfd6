"""The tokens of a predicate."""

import re
import unicodedata
from typing import Literal, NamedTuple

from wdsflow.memory.sizes import parse_size

from .predicate_errors import WhereError

TokenKind = Literal["number", "text", "name", "word", "sign", "end"]
LONGEST = 1_000_000  # characters of a predicate; a list of keys can be long
WORDS = frozenset({"and", "or", "not", "in", "between", "is", "null", "true", "false"})
# Signs of other languages, and what to write instead.
_FOREIGN = {
    "&&": "and",
    "&": "and",
    "||": "or",
    "|": "or",
    "!": "not",
    "<>": "!=",
    "=>": ">=",
    "=<": "<=",
    "===": "==",
    "!==": "!=",
}
_OTHERS = {
    "**": ("powers are not supported", "multiply instead: x * x"),
    "^": ("powers are not supported", "multiply instead: x * x"),
    ";": ("one predicate only", "join conditions with `and` or `or`"),
    "[": ("square brackets are not supported", "write a list as (1, 2, 3)"),
    "]": ("square brackets are not supported", "write a list as (1, 2, 3)"),
    "{": ("braces are not supported", "write a list as (1, 2, 3)"),
    "}": ("braces are not supported", "write a list as (1, 2, 3)"),
    "`": ("backticks are not supported", "write a score as its bare name, a text as 'text'"),
    ".": ("a dot has no meaning here", "a score is one name, such as width"),
    "~": ("~ is not supported", "write not, or matches(caption, 'regular expression')"),
    "$": ("$ is not supported", "write a score as its bare name, such as width"),
}
_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n]+)
    |(?P<number>(?:\d[\d_]*(?:\.[\d_]*)?|\.\d[\d_]*)(?:[eE][+-]?\d+)?)(?P<unit>[^\W\d_]\w*)?
    |(?P<name>[^\W\d]\w*)
    |(?P<quote>["'])
    |(?P<foreign>!==|===|&&|\|\||<>|=>|=<|\*\*|[&|!^;\[\]{}`.~$](?!=))
    |(?P<sign><=|>=|==|!=|//|[<>=+\-*/%(),])""",
    re.VERBOSE | re.ASCII,
)
_NAME = re.compile(r"[^\W\d]\w*")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"'}


class Token(NamedTuple):
    """One word: ``value`` is the number or the text, the word in lower case, the name or the sign itself."""

    kind: TokenKind
    value: str | int | float
    start: int
    end: int


def tokenize(text: str) -> list[Token]:
    """Return the tokens of a predicate, the last one of kind ``end``. Raises WhereError."""
    if len(text) > LONGEST:
        raise WhereError(text, LONGEST, LONGEST, f"the predicate is longer than {LONGEST:,} characters")
    tokens: list[Token] = []
    at = 0
    while at < len(text):
        token, at = _next(text, at)
        if token is not None:
            tokens.append(token)
    tokens.append(Token("end", "", at, at))
    return tokens


def _next(text: str, at: int) -> tuple[Token | None, int]:
    found = _TOKEN.match(text, at)
    if found is None:
        word = _NAME.match(text, at)
        if word is not None:  # non-ASCII letters
            return Token("name", word[0], at, word.end()), word.end()
        raise _strange(text, at)
    end = found.end()
    if found["space"]:
        return None, end
    if found["number"]:
        return Token("number", _number(text, found), at, end), end
    if found["name"]:
        word = _NAME.match(text, at)
        assert word is not None
        name, end = word[0], word.end()
        known = name.lower() if name.lower() in WORDS and name in {name.lower(), name.upper(), name.title()} else ""
        return Token("word" if known else "name", known or name, at, end), end
    if found["quote"]:
        return _text(text, at)
    if found["foreign"]:
        sign = found["foreign"]
        if sign in _FOREIGN:
            raise WhereError(text, at, end, f"{sign} is not supported", f"write {_FOREIGN[sign]}")
        detail, hint = _OTHERS[sign]
        raise WhereError(text, at, end, detail, hint)
    sign = "==" if found["sign"] == "=" else found["sign"]
    return Token("sign", sign, at, end), end


def _strange(text: str, at: int) -> WhereError:
    char = text[at]
    if char in "“”„‘’«»":
        return WhereError(text, at, at + 1, "a typographic quote", "write 'text' or \"text\" with straight quotes")
    name = unicodedata.name(char, f"U+{ord(char):04X}").lower()
    return WhereError(text, at, at + 1, f"a character with no meaning here ({name})")


def _number(text: str, found: re.Match[str]) -> int | float:
    digits, unit, start, end = found["number"], found["unit"] or "", found.start(), found.end()
    if len(digits) > 40:
        raise WhereError(text, start, end, "a number of more than 40 characters")
    plain = digits.replace("_", "")
    if digits.endswith("_") or "__" in digits or "_." in digits or "._" in digits:
        raise WhereError(text, start, end, "a number with a stray underscore", f"write {plain}")
    if unit:
        if len(unit) > 10:
            raise WhereError(text, start, end, "a number and a name without a sign between them")
        if not re.fullmatch(r"\d+(\.\d+)?", plain):
            raise WhereError(text, start, end, "a size needs digits before and after the point", "write 0.5MB or 1.5MB")
        try:
            return parse_size(f"{plain}{unit}")
        except ValueError as error:
            raise WhereError(text, start, end, str(error)) from None
    if plain.isdigit():
        return int(plain)
    value = float(plain)
    if value in {float("inf"), float("-inf")}:
        raise WhereError(text, start, end, "a number that is too large")
    return value


def _text(text: str, at: int) -> tuple[Token, int]:
    quote, place = text[at], at + 1
    parts: list[str] = []
    while place < len(text):
        char = text[place]
        if char == quote:
            return Token("text", "".join(parts), at, place + 1), place + 1
        if char == "\\" and place + 1 < len(text):
            # As in Python, an unknown escape stays as it is: regular expressions are full of them.
            known = _ESCAPES.get(text[place + 1])
            parts.append(known or char)
            place += 2 if known else 1
            continue
        if unicodedata.category(char) in {"Cc", "Cs"} and char not in "\t\n\r":
            raise WhereError(text, place, place + 1, "a control character inside of a text")
        parts.append(char)
        place += 1
    raise WhereError(text, at, at + 1, "a text without its closing quote", f"end it with {quote}")
