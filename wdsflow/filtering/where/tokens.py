"""The tokens of a predicate, taken one at a time, and errors with their place."""

import difflib
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from wdsflow.memory.sizes import parse_size
from wdsflow.text.shell import escape

from .tree import DEEPEST

_MARGIN = 60  # characters shown on either side of the place
_LONGEST = 300  # characters of a sentence, which may quote the predicate


class WhereError(ValueError):
    """An invalid predicate. ``column`` and ``line`` count from 1; ``hint`` is a correction.

    Its text shows the line with a caret under the place; characters that could disturb a terminal are spelled out.
    """

    def __init__(self, text: str, start: int, end: int, detail: str, hint: str = "") -> None:
        super().__init__(text, start, end, detail, hint)
        self.text, self.detail, self.hint = text, detail, hint
        self.start = max(0, min(start, len(text)))
        self.end = max(self.start, min(end, len(text)))
        self.line = text.count("\n", 0, self.start) + 1
        self.column = self.start - (text.rfind("\n", 0, self.start) + 1) + 1

    def __str__(self) -> str:
        place = f"column {self.column}" if "\n" not in self.text else f"line {self.line}, column {self.column}"
        lines = [
            f"where, {place}: {escape(self.detail, limit=_LONGEST)}",
            *(self._drawing() if self.text.strip() else ()),
        ]
        if self.hint:
            lines.append(f"  {escape(self.hint, limit=_LONGEST)}")
        return "\n".join(lines)

    def _drawing(self) -> list[str]:
        begin = self.text.rfind("\n", 0, self.start) + 1
        stop = self.text.find("\n", self.start)
        stop = len(self.text) if stop < 0 else stop
        left, right = max(begin, self.start - _MARGIN), min(stop, max(self.end, self.start) + _MARGIN, self.start + 200)
        before = ("..." if left > begin else "") + _shown(self.text[left : self.start])
        marked = _shown(self.text[self.start : min(self.end, right)])
        after = _shown(self.text[min(self.end, right) : right]) + ("..." if right < stop else "")
        return [f"    {before}{marked}{after}", f"    {' ' * _width(before)}{'^' * max(1, _width(marked))}"]


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the known name nearest to ``name``, or an empty text."""
    names = {word.lower(): word for word in sorted(known)}
    found = difflib.get_close_matches(name.lower()[:80], names, n=1, cutoff=0.6)
    return names[found[0]] if found else ""


def instead_of(name: str, known: Sequence[str]) -> str:
    """Return the hint about an unknown name: the nearest known one, or all of them."""
    close = nearest(name, known)
    return f"did you mean {close}?" if close else f"use one of {', '.join(known)}"


def _shown(text: str) -> str:
    return escape(text, limit=1000)


def _width(text: str) -> int:
    """Return the width in columns of a terminal: combining marks have none, wide East Asian characters two."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


TokenKind = Literal["number", "text", "name", "word", "sign", "end"]
LONGEST = 1_000_000  # characters of a predicate; a list of keys can be long
WORDS = frozenset({"and", "or", "not", "in", "between", "is", "null", "true", "false"})
# Signs of other languages, and their replacements.
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
    **dict.fromkeys(("**", "^"), ("powers are not supported", "multiply instead: x * x")),
    **dict.fromkeys("[]", ("square brackets are not supported", "write a list as (1, 2, 3)")),
    **dict.fromkeys("{}", ("braces are not supported", "write a list as (1, 2, 3)")),
    ";": ("one predicate only", "join conditions with `and` or `or`"),
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
        char = text[at]
        if char in "“”„‘’«»":
            raise WhereError(text, at, at + 1, "a typographic quote", "write 'text' or \"text\" with straight quotes")
        shown = unicodedata.name(char, f"U+{ord(char):04X}").lower()
        raise WhereError(text, at, at + 1, f"a character with no meaning here ({shown})")
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


_UNITS = frozenset({"b", "kb", "mb", "gb", "tb", "kib", "mib", "gib", "tib", "k", "m", "g"})


class ValueStream:
    """Tokens, the current position, and the depth of nesting."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokenize(text)
        self.at = 0
        self.nested = 0

    @property
    def ends(self) -> bool:
        """Whether no token is left."""
        return self.here.kind == "end"

    @property
    def before(self) -> Token:
        """The token that was taken last."""
        return self.tokens[self.at - 1]

    @property
    def here(self) -> Token:
        """The token that is next."""
        return self.tokens[self.at]

    def next(self) -> Token:
        """Take a token; the end stays where it is."""
        token = self.here
        self.at += token.kind != "end"
        return token

    def take(self, kind: str, *values: str) -> Token | None:
        """Take the next token if it has a kind, and one of some values if they are given."""
        token = self.here
        return self.next() if token.kind == kind and (not values or token.value in values) else None

    def expect(self, kind: str, value: str, what: str) -> Token:
        """Take a required token. Raises WhereError."""
        token = self.take(kind, value)
        if token is None:
            raise self.wrong(what)
        return token

    def wrong(self, what: str, hint: str = "") -> WhereError:
        """Return the error about the current token."""
        token = self.here
        found = "the predicate ends" if token.kind == "end" else f"found `{self.text[token.start : token.end][:40]}`"
        return WhereError(self.text, token.start, token.end, f"{found}, expected {what}", hint)

    def left_over(self) -> WhereError:
        """Return the error about text after a complete predicate."""
        token, before = self.here, self.before
        word = str(token.value).lower()
        if token.kind == "sign" and word == ")":
            return WhereError(self.text, token.start, token.end, "a closing parenthesis too many")
        hint = ""
        if token.kind == "sign" and word == ",":
            hint = "write numbers without separators (1000 or 1_000); join conditions with `and`"
        elif token.kind == "name" and before.kind == "number":
            hint = "write a size without a space: 1.5MB, 200KiB" if word in _UNITS else ""
        elif token.kind == "name" and word in {"like", "ilike", "rlike", "regexp", "glob", "similar"}:
            hint = "write contains(caption, 'cat'), startswith(...), or matches(caption, 'regular expression')"
        elif token.kind == "text" and before.kind == "text":
            hint = "write \\' for a quote inside of a text"
        elif token.kind == "name" and word in {"and", "or", "not", "in", "between", "is"}:
            hint = f"write {word} in lower case"
        return self.wrong("`and`, `or` or the end", hint)

    def deeper(self) -> None:
        """Count a level of nesting. Raises WhereError beyond the last one."""
        self.nested += 1
        if self.nested > DEEPEST:
            token = self.here
            raise WhereError(self.text, token.start, token.end, f"nested more than {DEEPEST} levels deep")
