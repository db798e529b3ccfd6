"""Whether a caption contains a web address."""

import re
from dataclasses import dataclass
from typing import ClassVar

from ..base import Kind, TextScore

_LABEL = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_ENDS = r"com|net|org|edu|gov|info|biz|io|(?:co|org|ac|com|net)\.[a-z]{2}"
# Every repetition has a bound: the time is linear in the length of any text.
_URL = re.compile(
    rf"\b(?:https?|ftp)://[^\s/]|\bwww\.{_LABEL}\.[a-z]|(?<![\w@.-])(?:{_LABEL}\.){{1,4}}(?:{_ENDS})(?![\w@-]|\.\w)"
    rf"|(?<![\w@.-])(?:{_LABEL}\.){{1,4}}[a-z]{{2,10}}/\w",
    re.IGNORECASE | re.ASCII,
)


@dataclass(frozen=True, kw_only=True)
class HasUrl(TextScore):
    """Whether the caption contains a web address: "https://...", "www. ...", "shop.com", "shop.co.uk", "shop.de/cats".

    Bare names count only with the most common endings (com, net, org, edu, gov, info, biz, io, co.uk and the like), or
    if a path follows. Source: our own.
    """

    name: ClassVar[str] = "has_url"
    kind: ClassVar[Kind] = "boolean"

    def of(self, text: str) -> bool:
        """Return whether it contains one."""
        return ("." in text or "://" in text) and _URL.search(text) is not None
