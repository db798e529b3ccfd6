"""Errors in a predicate, with their place."""

import difflib
import unicodedata
from collections.abc import Iterable, Sequence

from wdsflow.text.escape import escape

_MARGIN = 60  # characters shown on either side of the place
_LONGEST = 300  # characters of a sentence, which may quote the predicate


class WhereError(ValueError):
    """An invalid predicate. ``column`` and ``line`` count from 1; ``hint`` is what to write instead.

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
