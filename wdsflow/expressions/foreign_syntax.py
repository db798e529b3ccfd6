"""Explains text that is not Python: what other languages write, and what is missing or too much."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from wdsflow.memory.sizes import parse_size

from .errors import ExpressionError

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
    "?": ("? is not supported", "write one condition if another: width > 9 if has('json') else width > 3"),
    **dict.fromkeys("“”„‘’«»", ("a typographic quote", "write 'text' or \"text\" with straight quotes")),
}
PATTERN_HINT = "write contains(caption, 'cat'), startswith(...), or matches(caption, r'regular expression')"
PATTERN_WORDS = frozenset({"like", "ilike", "rlike", "regexp", "glob", "similar"})
_PYTHON_WORDS = frozenset({"and", "or", "not", "in", "is", "if", "else"})
_SIZE_UNITS = frozenset({"b", "kb", "mb", "gb", "tb", "kib", "mib", "gib", "tib", "k", "m", "g"})
_BETWEEN_VALUES = frozenset({"<", "<=", ">", ">=", "==", "!=", "+", "-", "*", "/", "//", "%", "**", ",", ".", ":="})
_BETWEEN_VALUES |= frozenset({"and", "or", "in", "is", "if", "else", "&", "|", "^", "@"})
_BEFORE_VALUES = frozenset({"not", "-", "+", "~", "(", "["})


class Word(NamedTuple):
    """A word or sign of the text, with its position. ``unit`` is what follows a number without a space."""

    kind: str
    text: str
    start: int
    end: int
    unit: str = ""


def explain_syntax_error(text: str) -> ExpressionError:
    """Return the error about a text that Python cannot parse: the first thing that is wrong, and what to write."""
    previous: Word | None = None
    needs_value = True
    open_parentheses: list[Word] = []
    for word in _words(text):
        error = _foreign(text, word, previous)
        if error is not None:
            return error
        if needs_value:
            closes_call = word.text in {")", "]"} and previous is not None and previous.text in {"(", "[", ","}
            if word.text not in _BEFORE_VALUES and not closes_call:
                if word.kind == "sign" or word.text in _PYTHON_WORDS:
                    return _unexpected(text, word, "a value: a score, a number, a 'text'")
                needs_value = False
            elif closes_call:
                needs_value = False
        elif word.text in _BETWEEN_VALUES or word.text in {"(", "["}:
            needs_value = True
        elif word.text not in {")", "]"} and not _continues(word, previous):
            return _left_over(text, word, previous)
        if word.text in {"(", "["}:
            open_parentheses.append(word)
        elif word.text in {")", "]"}:
            if not open_parentheses:
                return ExpressionError(text, word.start, word.end, "a closing parenthesis too many")
            open_parentheses.pop()
        previous = word
    end = Word("end", "", len(text), len(text))
    if needs_value:
        return _unexpected(text, end, "a value: a score, a number, a 'text'")
    if open_parentheses:
        return _unexpected(text, end, "a closing parenthesis")
    return ExpressionError(text, 0, len(text), "this is not an expression of Python")


def _words(text: str) -> Iterator[Word]:
    for match in _WORD.finditer(text):
        kind = match.lastgroup or "sign"
        if kind == "unit":
            kind = "number"
        yield Word(kind, match[kind], match.start(), match.end(), match["unit"] or "")


def _continues(word: Word, previous: Word | None) -> bool:
    """Return whether a word belongs to the operator before it: ``not in``, ``is not``, ``=`` of a setting."""
    return word.text == "not" or (word.text == "in" and previous is not None and previous.text == "not")


def _foreign(text: str, word: Word, previous: Word | None) -> ExpressionError | None:
    """Return the error about a word that another language would write here."""
    if word.kind == "sign":
        if word.text in {"'", '"'}:
            detail = "a text without its closing quote"
            return ExpressionError(text, word.start, word.start + 1, detail, f"end it with {word.text}")
        if word.text in _OTHER_SIGNS:
            return ExpressionError(text, word.start, word.end, *_OTHER_SIGNS[word.text])
        if word.text in _FOREIGN_SIGNS and not _is_setting(text, word):
            hint = f"write {_FOREIGN_SIGNS[word.text]}"
            return ExpressionError(text, word.start, word.end, f"{word.text} is not supported", hint)
        if ord(word.text[0]) > 127:
            return _foreign_character(text, word)
    if word.kind == "number":
        return _wrong_number(text, word)
    if word.kind == "name" and previous is not None:
        return _foreign_name(text, word, previous)
    return None


def _is_setting(text: str, word: Word) -> bool:
    """Return whether ``=`` names a setting, as in ``near_duplicate(distance=4)``."""
    return word.text == "=" and bool(re.search(r"[\w\]]\(([^()]*,)?\s*\w+\s*$", text[: word.start]))


def _foreign_character(text: str, word: Word) -> ExpressionError:
    import unicodedata

    char = text[word.start]
    name = unicodedata.name(char, f"U+{ord(char):04X}").lower()
    return ExpressionError(text, word.start, word.start + 1, f"a character with no meaning here ({name})")


def _wrong_number(text: str, word: Word) -> ExpressionError | None:
    """Return the error about a number with a unit, or with stray underscores."""
    digits = word.text
    plain = digits.replace("_", "")
    if len(digits) > 40:
        return ExpressionError(text, word.start, word.end, "a number of more than 40 characters")
    if digits.endswith("_") or "__" in digits or "_." in digits or "._" in digits:
        return ExpressionError(text, word.start, word.end, "a number with a stray underscore", f"write {plain}")
    if not word.unit or word.unit.lower() in _PYTHON_WORDS:
        return _leading_zeros(text, word)
    if len(word.unit) > 10:
        return ExpressionError(text, word.start, word.end, "a number and a name without a sign between them")
    return ExpressionError(text, word.start, word.end, *_size(plain, word.unit))


def _leading_zeros(text: str, word: Word) -> ExpressionError | None:
    if re.fullmatch(r"0[\d_]*[1-9][\d_]*", word.text):
        hint = f"write {word.text.lstrip('0_')}"
        return ExpressionError(text, word.start, word.end, "a number with zeros before it", hint)
    return None


def _size(number: str, unit: str) -> tuple[str, str]:
    """Return what is wrong with a size such as ``120KiB``, and what to write."""
    if unit.lower() in {"k", "m", "g", "t"}:
        letter = unit.upper()
        binary, decimal = f"{number} * {letter}iB", f"{number} * {letter}B"
        return f"{number}{unit} has two meanings", f"write {binary} (1024) or {decimal} (1000)"
    try:
        parse_size(f"1{unit}")
    except ValueError:
        return f"no such unit as {unit!r}", "there are KB, MB, GB, TB, KiB, MiB, GiB, TiB: write 120 * KiB"
    canonical = unit.upper().replace("I", "i")
    if canonical == "B":
        return "bytes have no unit", f"write {number}"
    return "a size is written as a product", f"write {number} * {canonical}"


def _foreign_name(text: str, word: Word, previous: Word) -> ExpressionError | None:
    """Return the error about a name that follows a value."""
    lower = word.text.lower()
    after_value = previous.kind in {"name", "number", "text"} or previous.text == ")"
    if previous.text in _PYTHON_WORDS or not after_value:
        return None
    if lower == "between":
        hint = "write a chain of comparisons: 200 <= width <= 4000"
        return ExpressionError(text, word.start, word.end, "between is not Python", hint)
    if lower in PATTERN_WORDS:
        return ExpressionError(text, word.start, word.end, f"{word.text} is not Python", PATTERN_HINT)
    if lower in _PYTHON_WORDS and word.text != lower:
        hint = f"write {lower} in lower case"
        return _unexpected(text, word, "`and`, `or` or the end", hint)
    return None


def _left_over(text: str, word: Word, previous: Word | None) -> ExpressionError:
    """Return the error about a word after a complete expression."""
    hint = ""
    if previous is not None and previous.kind == "number" and word.text.lower() in _SIZE_UNITS:
        hint = _size(previous.text, word.text)[1]
    elif previous is not None and previous.kind == "text" and word.kind == "text":
        hint = "write \\' for a quote inside of a text"
    return _unexpected(text, word, "`and`, `or` or the end", hint)


def _unexpected(text: str, word: Word, expected: str, hint: str = "") -> ExpressionError:
    found = f"found `{text[word.start : word.end][:40]}`" if word.kind != "end" else "the predicate ends"
    return ExpressionError(text, word.start, word.end, f"{found}, expected {expected}", hint)
