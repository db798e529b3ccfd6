"""What a caption is: readable or not, empty or not, and signs that it is no caption."""

import re

from wdsflow.scan.evidence import BLANK, EMPTY, NOT_UTF8, OK

CONTEXT_WORDS = 75  # CLIP's 77 tokens less start and end; a word is at least one token
_SHORTEST_LONG = 2 * CONTEXT_WORDS + 1  # characters in 76 words
_SEARCHED = 1 << 16  # characters that are searched for tags and the like

_PRINTABLE = bytes(range(0x20, 0x7F)) + b"\t\n\r"
_PLAIN = bytes(byte for byte in _PRINTABLE if byte not in b"<&")
_CONTROL = re.compile(r"[\x01-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_TAGS = (
    "a|abbr|b|big|blockquote|body|br|center|code|dd|div|dl|dt|em|font|h[1-6]|head|hr|html|i|iframe|img|li|meta|ol|p|pre|"
    "script|small|span|strike|strong|style|sub|sup|table|tbody|td|th|tr|tt|u|ul"
)
_HTML = re.compile(
    rf"</?(?:{_TAGS})(?:\s[^<>]{{0,200}})?/?>|<!--|<!doctype\b"
    r"|&(?:amp|lt|gt|quot|apos|nbsp|copy|reg|trade|hellip|[mn]dash|[lr][sd]quo|[lr]aquo|[a-z]{1,2}(?:acute|grave|uml|circ)"
    r"|[an]tilde|[Cc]cedil|szlig|deg|bull|middot|euro|pound|#\d{1,7}|#[xX][0-9a-fA-F]{1,6});",
    re.IGNORECASE,
)
_FILE_NAME = re.compile(
    r"[^\s\"<>|]{1,250}\.(?:jpe?g|jfif|png|gif|webp|bmp|tiff?|heic|avif|svg|psd|eps|ico|cr2|nef|dng|arw|mp4|mov|webm|pdf)",
    re.IGNORECASE,
)
_LONGEST_NAME = 300
_NONE = frozenset(("nan", "none", "null"))
# At least one of these stands in every caption that gets a note for its characters; most captions have none.
_SUSPICIOUS = re.compile(r"[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f<&\ufeff\u00c2\u00c3\u00ce-\u00d1\u00e2\u00ef\u00f0]")
# UTF-8 read as Latin-1 or Windows-1252: lead bytes show as letters with accents, what follows as signs that
# never follow such a letter. Cyrillic and Greek need two pairs, for one could be a coincidence.
_AFTER = "\x80-\xbf\u20ac\u201a\u0192\u201e\u2026\u2020\u2021\u02c6\u2030\u0160\u2039\u0152\u017d\u2018-\u201d\u2022\u2013\u2014\u02dc\u2122\u0161\u203a\u0153\u017e\u0178"
_MOJIBAKE = re.compile(
    rf"[\u00c2\u00c3][\x80-\xbf]|\u00c3[{_AFTER}]|\u00e2\u20ac[{_AFTER}]|\u00e2[\x80-\x9f][\x80-\xbf]"
    rf"|\u00f0\u0178[{_AFTER}]|\u00f0\x9f[\x80-\xbf]|(?:[\u00ce\u00cf\u00d0\u00d1][{_AFTER}]){{2}}|\u00ef\u00bb\u00bf"
)

_PATTERNS = {"text.nul": re.compile("\0"), "text.control": _CONTROL, "text.html": _HTML, "text.mojibake": _MOJIBAKE}


def look_at_text(data: bytes) -> tuple[str, tuple[str, ...], str | None]:
    """Return ``(status, notes, text)`` of a caption's bytes; text is None where they are not UTF-8.

    Status is OK, EMPTY, BLANK (``str.strip`` leaves nothing) or NOT_UTF8. Notes are names of tallies. A byte-order
    mark is a character like any other for ``bytes.decode``, so a caption of a mark alone is not blank.
    """
    if not data:
        return EMPTY, ("text.empty",), ""
    if len(data) < _SHORTEST_LONG and b" " in data and not data.translate(None, _PLAIN):
        text = data.decode("ascii")
        if not text.isspace() and (len(data) > 8 or text.strip().lower() not in _NONE):
            return OK, (), text
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return NOT_UTF8, ("text.not-utf8",), None
    if text.isspace():
        return BLANK, ("text.blank",), text
    return OK, _notes(text), text


def _notes(text: str) -> tuple[str, ...]:
    notes: list[str] = []
    searched = text[:_SEARCHED]
    if _SUSPICIOUS.search(searched):
        if text[0] == "\ufeff":
            notes.append("text.bom")
        found = ((name, pattern.search(searched)) for name, pattern in _PATTERNS.items())
        notes.extend(name for name, match in found if match)
    if len(text) <= _LONGEST_NAME:
        bare = text.strip("\ufeff \t\r\n").lower()
        if bare in _NONE:
            notes.append("text.none")
        elif "." in bare[-5:] and _FILE_NAME.fullmatch(bare):
            notes.append("text.filename")
    if len(text) >= _SHORTEST_LONG and len(text.split(None, CONTEXT_WORDS)) > CONTEXT_WORDS:
        notes.append("text.long")
    return tuple(notes)
