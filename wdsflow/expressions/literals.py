"""Constants of an expression: numbers that a float can hold, and unambiguous texts."""

import math
import re

from .syntax import ExpressionText
from .tree import Literal, Span

# Characters of a whole number: longer ones are refused before they are converted.
_MOST_DIGITS = 40
_THREE_QUOTES = re.compile(r"[rR]?('''|\"\"\")")
_TEXT = re.compile(r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""", re.DOTALL)


def number_literal(source: ExpressionText, value: float, span: Span) -> Literal:
    """Return a number that a float can hold, as it can the numbers of scores.

    Raises ExpressionError for others.
    """
    start, end = span
    if isinstance(value, int) and end - start > _MOST_DIGITS:
        raise source.error(span, f"a number of more than {_MOST_DIGITS} characters")
    as_float = float(value)
    if not math.isfinite(as_float):
        raise source.error(span, "a number that is too large")
    if as_float != value:
        detail = f"{value} has more digits than the numbers of scores, which are floats of 64 bits"
        raise source.error(span, detail, f"write {int(as_float)}")
    return Literal(value, span)


def text_literal(source: ExpressionText, value: str, span: Span) -> Literal:
    """Return a text. Raises ExpressionError for one that is something else than it looks like."""
    written = source.text[span[0] : span[1]]
    if _THREE_QUOTES.match(written):
        raise source.error(span, "a text in three quotes", "write 'text' or \"text\"")
    # Python joins neighbouring texts.
    if len(_TEXT.findall(written)) > 1:
        hint = "write \\' for a quote inside of a text"
        raise source.error(span, "two texts without a sign between them", hint)
    if any(map(_is_control, value)):
        # "\bcat" is a backspace before "cat".
        hint = f"write r{written} if this is a regular expression" if "\\" in written else ""
        raise source.error(span, "a control character inside of a text", hint)
    return Literal(value, span)


def _is_control(char: str) -> bool:
    """Return whether a character cannot be seen: a control character, or a lone surrogate."""
    if char.isprintable() or char in "\t\n\r":
        return False
    code = ord(char)
    return code < 160 or 0xD800 <= code < 0xE000
