"""Errors about an expression, with the position drawn under the text."""

import difflib
import unicodedata
from collections.abc import Iterable, Sequence

from wdsflow.text.shell import escape

# Characters of the text that are shown on either side of the position.
_MARGIN = 60
# Characters of a sentence, which may quote the expression.
_LONGEST = 300


class ExpressionError(ValueError):
    """An invalid expression.

    ``column`` and ``line`` count from 1. ``hint`` says what to write instead.

    Its text shows the line with a caret under the position. Characters that could disturb a
    terminal are spelled out.
    """

    def __init__(self, text: str, start: int, end: int, detail: str, hint: str = "") -> None:
        super().__init__(text, start, end, detail, hint)
        self.text = text
        self.detail = detail
        self.hint = hint
        self.start = max(0, min(start, len(text)))
        self.end = max(self.start, min(end, len(text)))
        self.line = text.count("\n", 0, self.start) + 1
        self.column = self.start - (text.rfind("\n", 0, self.start) + 1) + 1

    def __str__(self) -> str:
        position = f"column {self.column}"
        if "\n" in self.text:
            position = f"line {self.line}, {position}"
        lines = [f"where, {position}: {escape(self.detail, limit=_LONGEST)}"]
        if self.text.strip():
            lines += self._drawing()
        if self.hint:
            lines.append(f"  {escape(self.hint, limit=_LONGEST)}")
        return "\n".join(lines)

    def _drawing(self) -> list[str]:
        """Return the line of the text, and a line with carets under the position."""
        line_start = self.text.rfind("\n", 0, self.start) + 1
        line_end = self.text.find("\n", self.start)
        if line_end < 0:
            line_end = len(self.text)
        left = max(line_start, self.start - _MARGIN)
        right = min(line_end, self.end + _MARGIN, self.start + 200)
        before = _shown(self.text[left : self.start])
        if left > line_start:
            before = f"...{before}"
        marked = _shown(self.text[self.start : min(self.end, right)])
        after = _shown(self.text[min(self.end, right) : right])
        if right < line_end:
            after = f"{after}..."
        carets = "^" * max(1, _width(marked))
        return [f"    {before}{marked}{after}", f"    {' ' * _width(before)}{carets}"]


def nearest(name: str, candidates: Iterable[str]) -> str:
    """Return the candidate nearest to ``name``, or an empty text."""
    by_lower_case = {word.lower(): word for word in sorted(candidates)}
    matches = difflib.get_close_matches(name.lower()[:80], by_lower_case, n=1, cutoff=0.6)
    return by_lower_case[matches[0]] if matches else ""


def unknown_name_hint(name: str, candidates: Sequence[str]) -> str:
    """Return the hint about an unknown name: the nearest candidate, or all of them."""
    close = nearest(name, candidates)
    return f"did you mean {close}?" if close else f"use one of {', '.join(candidates)}"


def _shown(text: str) -> str:
    return escape(text, limit=1000)


def _width(text: str) -> int:
    """Return the width of a text in columns of a terminal.

    Combining marks have no width, wide East Asian characters have two columns.
    """
    width = 0
    for char in text:
        if unicodedata.combining(char):
            continue
        width += 2 if unicodedata.east_asian_width(char) in "WF" else 1
    return width
