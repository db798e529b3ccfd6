"""Explains why a text is not an expression of Python: by the first word that cannot be where it is.

Python's own messages differ from version to version, and are about programs.
"""

from .errors import ExpressionError
from .foreign_syntax import (
    PYTHON_WORDS,
    SIZE_UNITS,
    Word,
    foreign_spelling_error,
    size_hint,
    unexpected_word_error,
    words_of,
)

_OPENING = frozenset({"(", "["})
_CLOSING = frozenset({")", "]"})
_BEFORE_VALUES = frozenset({"not", "-", "+", "~"})
_BETWEEN_VALUES = frozenset(
    {
        "<",
        "<=",
        ">",
        ">=",
        "==",
        "!=",
        "+",
        "-",
        "*",
        "/",
        "//",
        "%",
        "**",
        "&",
        "|",
        "^",
        "@",
        ",",
        ".",
        ":=",
        "=",
    }
    | {"and", "or", "in", "is", "if", "else"}
)
_VALUE = "a value: a score, a number, a 'text'"


def explain_syntax_error(text: str) -> ExpressionError:
    """Return the error about a text that Python cannot parse.

    It says what to write instead, if that is known.
    """
    previous: Word | None = None
    needs_value = True
    open_parentheses = 0
    for word in words_of(text):
        error = foreign_spelling_error(text, word, after_value=not needs_value)
        if error is not None:
            return error
        if word.text in _OPENING:
            open_parentheses += 1
            needs_value = True
        elif word.text in _CLOSING:
            if not open_parentheses:
                return ExpressionError(text, word.start, word.end, "a closing parenthesis too many")
            if needs_value and previous is not None and previous.text not in {*_OPENING, ","}:
                return unexpected_word_error(text, word, _VALUE)
            open_parentheses -= 1
            needs_value = False
        elif needs_value:
            if word.text not in _BEFORE_VALUES:
                if word.kind == "sign" or word.text in PYTHON_WORDS:
                    return unexpected_word_error(text, word, _VALUE)
                needs_value = False
        elif word.text in _BETWEEN_VALUES:
            needs_value = True
        elif word.text != "not":
            # "not" may be the first half of "not in".
            return _left_over(text, word, previous)
        previous = word
    end = Word("end", "", len(text), len(text))
    if needs_value:
        return unexpected_word_error(text, end, _VALUE)
    if open_parentheses:
        return unexpected_word_error(text, end, "a closing parenthesis")
    return ExpressionError(text, 0, len(text), "this is not an expression of Python")


def _left_over(text: str, word: Word, previous: Word | None) -> ExpressionError:
    """Return the error about a word after a complete expression."""
    hint = ""
    if previous is not None and previous.kind == "number" and word.text.lower() in SIZE_UNITS:
        hint = size_hint(previous.text, word.text)[1]
    elif previous is not None and previous.kind == "text" and word.kind == "text":
        hint = "write \\' for a quote inside of a text"
    return unexpected_word_error(text, word, "`and`, `or` or the end", hint)
