"""What other languages write, and what Python writes instead."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from .errors import ExpressionError
from .functions import SIZES

_WORD = re.compile(
    r"""(?P<text>[rR]?(?:'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"))
    |(?P<number>(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9]+)?)(?P<unit>[^\W\d]\w*)?
    |(?P<name>[^\W\d]\w*)
    |(?P<sign>!==|===|&&|\|\||<>|=>|=<|:=|<=|>=|==|!=|//|\*\*|\S)""",
    re.VERBOSE,
)
# Signs and words of other languages, and what Python writes.
_FOREIGN_SIGNS = {
    "&&": "and",
    "||": "or",
    "!": "not",
    "<>": "!=",
    "=>": ">=",
    "=<": "<=",
    "===": "==",
    "!==": "!=",
    "=": "==",
}
_OTHER_SIGNS = {
    ";": ("one predicate only", "join conditions with `and` or `or`"),
    "`": ("backticks are not supported", "write a score as its bare name, a text as 'text'"),
    "$": ("$ is not supported", "write a score as its bare name, such as width"),
    "?": (
        "? is not supported",
        "write one condition if another: width > 9 if has('json') else width > 3",
    ),
    **dict.fromkeys(
        "“”„‘’«»", ("a typographic quote", "write 'text' or \"text\" with straight quotes")
    ),
}
PATTERN_HINT = (
    "write contains(caption, 'cat'), startswith(...), or matches(caption, r'regular expression')"
)
PATTERN_WORDS = frozenset({"like", "ilike", "rlike", "regexp", "glob", "similar"})
PYTHON_WORDS = frozenset({"and", "or", "not", "in", "is", "if", "else"})
_SIZE_NAMES = {name.lower(): name for name in SIZES}
SIZE_UNITS = frozenset({"b", "k", "m", "g", *_SIZE_NAMES})


class Word(NamedTuple):
    """A word or sign of the text, with its position.

    ``unit`` is what follows a number without a space.
    """

    kind: str
    text: str
    start: int
    end: int
    unit: str = ""


def words_of(text: str) -> Iterator[Word]:
    """Yield the words and signs of a text."""
    for match in _WORD.finditer(text):
        kind = match.lastgroup or "sign"
        if kind == "unit":
            kind = "number"
        yield Word(kind, match[kind], match.start(), match.end(), match["unit"] or "")


def foreign_spelling_error(text: str, word: Word, *, after_value: bool) -> ExpressionError | None:
    """Return the error about a word that another language would write here.

    None if Python might write it, too.
    """
    if word.kind == "sign":
        if word.text in {"'", '"'}:
            detail = "a text without its closing quote"
            return ExpressionError(
                text, word.start, word.start + 1, detail, f"end it with {word.text}"
            )
        if word.text in _OTHER_SIGNS:
            return ExpressionError(text, word.start, word.end, *_OTHER_SIGNS[word.text])
        if word.text in _FOREIGN_SIGNS and not _is_setting(text, word):
            hint = f"write {_FOREIGN_SIGNS[word.text]}"
            return ExpressionError(
                text, word.start, word.end, f"{word.text} is not supported", hint
            )
        if ord(word.text[0]) > 127:
            return _foreign_character(text, word)
    if word.kind == "number":
        return _wrong_number(text, word)
    if word.kind == "name" and after_value:
        return _foreign_name(text, word)
    return None


def _is_setting(text: str, word: Word) -> bool:
    """Return whether ``=`` names a setting, as in ``near_duplicate(distance=4)``."""
    return word.text == "=" and bool(re.search(r"[\w\]]\(([^()]*,)?\s*\w+\s*$", text[: word.start]))


def _foreign_character(text: str, word: Word) -> ExpressionError:
    import unicodedata

    char = text[word.start]
    name = unicodedata.name(char, f"U+{ord(char):04X}").lower()
    return ExpressionError(
        text, word.start, word.start + 1, f"a character with no meaning here ({name})"
    )


def _wrong_number(text: str, word: Word) -> ExpressionError | None:
    """Return the error about a number with a unit, or with stray underscores."""
    digits = word.text
    plain = digits.replace("_", "")
    if len(digits) > 40:
        return ExpressionError(text, word.start, word.end, "a number of more than 40 characters")
    if digits.endswith("_") or "__" in digits or "_." in digits or "._" in digits:
        return ExpressionError(
            text, word.start, word.end, "a number with a stray underscore", f"write {plain}"
        )
    if not word.unit or word.unit.lower() in PYTHON_WORDS:
        return _leading_zeros(text, word)
    if len(word.unit) > 10:
        return ExpressionError(
            text, word.start, word.end, "a number and a name without a sign between them"
        )
    return ExpressionError(text, word.start, word.end, *size_hint(plain, word.unit))


def _leading_zeros(text: str, word: Word) -> ExpressionError | None:
    if re.fullmatch(r"0[\d_]*[1-9][\d_]*", word.text):
        hint = f"write {word.text.lstrip('0_')}"
        return ExpressionError(text, word.start, word.end, "a number with zeros before it", hint)
    return None


def size_hint(number: str, unit: str) -> tuple[str, str]:
    """Return what is wrong with a size such as ``120KiB``, and what to write."""
    name = _SIZE_NAMES.get(unit.lower())
    if name is not None:
        return "a size is written as a product", f"write {number} * {name}"
    if unit.lower() == "b":
        return "bytes have no unit", f"write {number}"
    if unit.lower() in {"k", "m", "g", "t"}:
        letter = unit.upper()
        hint = f"write {number} * {letter}iB (1024) or {number} * {letter}B (1000)"
        return f"{number}{unit} has two meanings", hint
    return f"no such unit as {unit!r}", f"there are {', '.join(SIZES)}: write 120 * KiB"


def _foreign_name(text: str, word: Word) -> ExpressionError | None:
    """Return the error about a name that follows a value."""
    lower = word.text.lower()
    if lower == "between":
        hint = "write a chain of comparisons: 200 <= width <= 4000"
        return ExpressionError(text, word.start, word.end, "between is not Python", hint)
    if lower in PATTERN_WORDS:
        return ExpressionError(
            text, word.start, word.end, f"{word.text} is not Python", PATTERN_HINT
        )
    if lower in PYTHON_WORDS and word.text != lower:
        hint = f"write {lower} in lower case"
        return unexpected_word_error(text, word, "`and`, `or` or the end", hint)
    return None


def unexpected_word_error(text: str, word: Word, expected: str, hint: str = "") -> ExpressionError:
    """Return the error about a word, or the end of the text, where something else is expected."""
    actual = (
        f"found `{text[word.start : word.end][:40]}`"
        if word.kind != "end"
        else "the predicate ends"
    )
    return ExpressionError(text, word.start, word.end, f"{actual}, expected {expected}", hint)
