"""Whether a caption contains personal data."""

import re
from dataclasses import dataclass
from typing import ClassVar

from ..base import Kind, TextScore

_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@(?:[\w-]{1,63}\.){1,5}[a-z]{2,24}(?!\w)", re.IGNORECASE)
_DATE = re.compile(r"(?<![\d/.-])\d{1,4}([/.-])\d{1,2}\1\d{1,4}(?![/.-]?\d)")
_NUMBER = re.compile(r"(?<![\w.,/$€£+-])(?:\+ ?)?\(?\d[\d ()./-]{5,28}\d(?!\w|[.,]\d)")
_AMERICAN = re.compile(r"(?<![\w.,/$€£-])(?:\([2-9]\d\d\) ?|[2-9]\d\d[ .-])[2-9]\d\d[ .-]\d{4}(?![\w-]|[.,]\d)")
_NATIONAL = re.compile(r"\(?0\d[\d ()/-]*[ )/-][\d ()/-]*")


@dataclass(frozen=True, kw_only=True)
class HasPii(TextScore):
    """Whether the caption contains an e-mail address or a telephone number.

    Numbers count if they are written like telephone numbers: with a country code ("+44 20 7946 0958", 8 to 15 digits,
    E.164), in the American form ("(212) 555-0123"), or in groups that begin with 0 ("030 1234567", 9 to 12 digits).
    Bare digits, dates and prices do not count. ``email`` and ``phone`` choose what to look for. Source: our own; it
    finds the usual forms, not all of them.
    """

    name: ClassVar[str] = "has_pii"
    kind: ClassVar[Kind] = "boolean"

    email: bool = True
    phone: bool = True

    def of(self, text: str) -> bool:
        """Return whether it contains one."""
        if self.email and "@" in text and _EMAIL.search(text):
            return True
        return self.phone and has_phone(text)


def has_phone(text: str) -> bool:
    """Return whether a text contains a telephone number.

    >>> has_phone("call 555-867-5309"), has_phone("call 212-555-0123"), has_phone("made 2019-05-12 in 1920 x 1080")
    (True, True, False)
    """
    text = _DATE.sub(";", text)
    return _AMERICAN.search(text) is not None or any(_is_phone(match[0]) for match in _NUMBER.finditer(text))


def _is_phone(written: str) -> bool:
    digits = sum(map(str.isdigit, written))
    if written.startswith("+"):
        return 8 <= digits <= 15
    return 9 <= digits <= (15 if written.startswith("00") else 12) and _NATIONAL.fullmatch(written) is not None
