"""The encoding of captions that are not UTF-8."""

import codecs
import re
from collections import Counter

from wdsflow.shards.caption_field import LARGEST

# The most specific first: latin-1 takes whatever cp1252 takes.
_CANDIDATES = ("utf-16", "cp1252", "latin-1")
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# Bytes 0x80 to 0x9f are control characters in latin-1, which no caption has.
_CONTROL = re.compile(rb"[\x80-\x9f]")
# Languages that are written in cp1252 do not put three accented letters in a row. Cyrillic, Greek
# and Chinese in encodings of their own look like that, if they are taken for cp1252.
_FOREIGN = re.compile(r"[\u00c0-\u024f]{3}")
# Of all characters of the captions; accented letters and
# signs are at most a fifth of such a language.
_MOST_ACCENTED = 0.3
# Characters that no caption has: bytes of UTF-16 taken for single letters have many.
_CONTROL_CHARACTER = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def is_utf8(data: bytes) -> bool:
    """Return whether a caption is UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def decode_caption(data: bytes, encoding: str) -> str | None:
    r"""Return the text of a caption in this encoding; None if its bytes are none in that.

    >>> decode_caption("café".encode("cp1252"), "cp1252"), decode_caption(b"caf\x81", "cp1252")
    ('café', None)
    """
    # Nearly all bytes of even length can be taken for UTF-16: only its mark shows that they are.
    if encoding == "utf-16" and not data.startswith(_UTF16_MARKS):
        return None
    if encoding in ("latin-1", "iso8859-1") and _CONTROL.search(data):
        return None
    try:
        return data.decode(encoding)
    except (UnicodeError, ValueError):
        return None


class EncodingGuess:
    """Finds the one encoding in which all captions make sense, from those that are not UTF-8.

    >>> guess = EncodingGuess()
    >>> for text in ("naïve", "– a dash"):
    ...     guess.add(text.encode("cp1252"))
    >>> guess.encoding, guess.is_certain
    ('cp1252', False)
    """

    def __init__(self) -> None:
        self.candidates = list(_CANDIDATES)
        # characters of all captions by encoding, and those of them that are not ASCII
        self.characters: Counter[str] = Counter()
        self.accented: Counter[str] = Counter()
        # That are not UTF-8.
        self.captions = 0

    def __repr__(self) -> str:
        return f"EncodingGuess({self.encoding!r}, {self.captions} captions)"

    def add(self, caption: bytes) -> None:
        """Take one more caption, in any encoding."""
        if is_utf8(caption) or len(caption) > LARGEST:
            return
        self.captions += 1
        self.candidates = [
            encoding for encoding in self.candidates if self._makes_sense(caption, encoding)
        ]

    def merge(self, other: "EncodingGuess") -> None:
        """Take the captions of another guess."""
        self.captions += other.captions
        self.candidates = [encoding for encoding in self.candidates if encoding in other.candidates]
        self.characters += other.characters
        self.accented += other.accented

    def _makes_sense(self, caption: bytes, encoding: str) -> bool:
        text = decode_caption(caption, encoding)
        if text is None or _CONTROL_CHARACTER.search(text):
            return False
        self.characters[encoding] += len(text)
        self.accented[encoding] += sum(not character.isascii() for character in text)
        return encoding == "utf-16" or not _FOREIGN.search(text)

    @property
    def encoding(self) -> str:
        """The encoding, "" if there is none, or if all captions are UTF-8."""
        for encoding in self.candidates if self.captions else ():
            if (
                encoding == "utf-16"
                or self.accented[encoding] <= _MOST_ACCENTED * self.characters[encoding]
            ):
                return encoding
        return ""

    @property
    def is_certain(self) -> bool:
        """Whether the captions themselves name their encoding, as those in UTF-16 do."""
        return self.encoding == "utf-16"
