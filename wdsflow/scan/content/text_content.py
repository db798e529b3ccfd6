"""Contents of captions and of json."""

import json
import re
from contextlib import suppress
from typing import Any

import orjson

from wdsflow.scan.statuses import BAD, BLANK, EMPTY, NO_CAPTION, NOT_UTF8, OK
from wdsflow.shards.caption_field import caption_in, look_up

# orjson accepts, but Python's json refuses: numbers beyond Python's
# limit of digits, and nesting close to Python's recursion limit. Both
# need some length, so short documents are not searched for them.
_LONG = 1000
_MANY_DIGITS = re.compile(rb"[0-9]{600}")
_DEEP = 200
# Objects within objects that are searched for captions.
_CAPTION_DEPTH = 3
# Of a list, that are searched for captions.
_MOST_OBJECTS = 16

# CLIP's 77 tokens less start and end; a word is at least one token.
CONTEXT_WORDS = 75
# Characters in 76 words.
_SHORTEST_LONG = 2 * CONTEXT_WORDS + 1
# Characters that are searched for tags and the like.
_SEARCHED = 1 << 16

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
# Every caption that gets a note for its characters has at
# least one of these; most captions have none.
_SUSPICIOUS = re.compile(
    r"[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f<&\ufeff\u00c2\u00c3\u00ce-\u00d1\u00e2\u00ef\u00f0]"
)
# UTF-8 read as Latin-1 or Windows-1252: lead bytes show as letters with
# accents, the next bytes as signs that never follow such a letter.
# Cyrillic and Greek need two pairs, for one could be a coincidence.
_AFTER = "\x80-\xbf\u20ac\u201a\u0192\u201e\u2026\u2020\u2021\u02c6\u2030\u0160\u2039\u0152\u017d\u2018-\u201d\u2022\u2013\u2014\u02dc\u2122\u0161\u203a\u0153\u017e\u0178"
_MOJIBAKE = re.compile(
    rf"[\u00c2\u00c3][\x80-\xbf]|\u00c3[{_AFTER}]|\u00e2\u20ac[{_AFTER}]|\u00e2[\x80-\x9f][\x80-\xbf]"
    rf"|\u00f0\u0178[{_AFTER}]|\u00f0\x9f[\x80-\xbf]|(?:[\u00ce\u00cf\u00d0\u00d1][{_AFTER}]){{2}}|\u00ef\u00bb\u00bf"
)

_PATTERNS = {
    "text.nul": re.compile("\0"),
    "text.control": _CONTROL,
    "text.html": _HTML,
    "text.mojibake": _MOJIBAKE,
}


def decode_json(
    data: bytes, wanted: tuple[str, ...], *, nested: bool = False
) -> tuple[str, tuple[str, ...], dict[str, object] | None]:
    """Return ``(status, notes, object)`` of a JSON field.

    ``object`` is None unless the field holds a JSON object.

    Status is BAD exactly where ``json.loads(data)`` raises. With ``wanted`` (OpenCLIP 4's
    --json-text-key, in the order of its alternatives) it is NO_CAPTION where none of these holds a
    string with more than white space; ``nested``: names may be paths with dots, and lists hold
    captions, as for the stage JsonText. Notes: "json.bad", or "json.deep" where only the depth is
    at fault, or "json.not-object". Integers of more than 64 bits may come as floats.
    """
    try:
        value = _loads(data)
    except RecursionError:
        return BAD, ("json.deep",), None
    except ValueError:
        return BAD, ("json.bad",), None
    has_caption = not wanted or _holds_caption(value, wanted, nested=nested)
    status = OK if has_caption else NO_CAPTION
    if not isinstance(value, dict):
        return status, ("json.not-object",), None
    return status, (), value


def _holds_caption(value: object, wanted: tuple[str, ...], *, nested: bool) -> bool:
    """Return whether json holds a caption under one of the names."""
    if nested:
        return any(caption_in(look_up(value, name)) is not None for name in wanted)
    if not isinstance(value, dict):
        return False
    texts = (value.get(name) for name in wanted)
    return any(isinstance(text, str) and text.strip() for text in texts)


def texts_in(
    value: dict[str, Any], path: str = "", depth: int = _CAPTION_DEPTH
) -> list[tuple[str, str, bool]]:
    """Return ``(path, text, plain)`` of each name in a JSON object.

    ``text`` is "" if the name holds no caption.

    Paths and captions are those of the stage JsonText: names of objects within objects are joined
    by dots, and of a list the first string counts. ``plain``: no list, and not within another
    object; OpenCLIP 4 takes only these.
    """
    found: list[tuple[str, str, bool]] = []
    for name, item in value.items():
        if path and "." in name:
            # No path leads there.
            continue
        kind = item.__class__
        if kind is str:
            # As in caption_in, without its call: a call per name would take as long as the parser.
            text = item.strip()
            found.append(
                (path + name, text if text.isascii() else caption_in(text) or "", not path)
            )
            continue
        found.append((path + name, (kind is list and caption_in(item)) or "", False))
        inner = _first_values(item) if kind is list else item
        if inner.__class__ is dict and depth and "." not in name:
            found += texts_in(inner, f"{path}{name}.", depth - 1)
    return found


def _first_values(items: list[Any]) -> dict[str, Any]:
    """Return the names in a list of objects, each with its first value.

    That is the value that ``look_up`` finds.
    """
    values: dict[str, Any] = {}
    for item in items[:_MOST_OBJECTS]:
        for name, value in item.items() if isinstance(item, dict) else ():
            if value is not None:
                values.setdefault(name, value)
    return values


def _loads(data: bytes) -> object:
    """Do what ``json.loads`` does, through orjson where both surely agree."""
    if len(data) < _LONG or not (
        data.count(b"[") + data.count(b"{") > _DEEP or _MANY_DIGITS.search(data)
    ):
        # NaN, byte-order marks, UTF-16, lone surrogates: json may take them.
        with suppress(ValueError):
            return orjson.loads(data)
    return json.loads(data)


def decode_text(data: bytes) -> tuple[str, tuple[str, ...], str | None]:
    """Return ``(status, notes, text)`` of a caption's bytes; text is None where they are not UTF-8.

    Status is OK, EMPTY, BLANK (``str.strip`` leaves nothing) or NOT_UTF8. Notes are names of
    tallies. A byte-order mark is a character like any other for ``bytes.decode``, so a caption of a
    mark alone is not blank.
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
