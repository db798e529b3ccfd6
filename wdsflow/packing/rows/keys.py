"""Keys that every reader splits and sorts in the same way."""

import unicodedata

from wdsflow.shards.tar.members import is_meta

from ..unusable import BAD_KEY, NO_KEY, Unusable, described

# Bytes of a name in a plain USTAR header.
_NAME = 100
# Bytes of a key whose fields have a usual length.
_LONGEST = 90
# Characters of a hash.
_HASHED = 16
# Categories of characters that break lines, or do not decode.
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def fits_header(name: str) -> bool:
    """Return whether the name of a member fits a plain USTAR header as it is.

    >>> fits_header("k" * 16 + "." + "f" * 83), fits_header("k" * 16 + "." + "f" * 84)
    (True, False)
    """
    return len(name.encode("utf-8", "surrogateescape")) <= _NAME


def numbered_key(row: int) -> str:
    """Return the key of a row that has no other: its number, as in messages.

    Numbers start at 1 and continue through all tables.

    >>> numbered_key(42)
    '00000042'
    """
    return f"{row:08d}"


def key_from(value: object, column: str) -> str:
    """Return the safe key for a value of the column of keys. Raises Unusable."""
    if value is None or value == "":
        raise Unusable(NO_KEY, "it is empty", column)
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise Unusable(BAD_KEY, described(value), column)
    return safe_key(str(value))


def safe_key(text: str, field: str = "") -> str:
    """Return a key without dots, unsafe folders and characters that break lines or do not decode.

    Unsafe folders are those that lead elsewhere, such as ``..``.

    It is cut so that its name with a ``field`` fits a plain USTAR header, unless that is longer
    than 83 bytes.

    >>> safe_key("photos/a.b.jpg"), safe_key("../../x"), safe_key("__x__"), safe_key("a b é")
    ('photos/a_b_jpg', '_/_/x', 'x__x__', 'a b é')
    >>> safe_key("__MACOSX/x"), safe_key("a/__MACOSX/._x")
    ('x__MACOSX/x', 'a/x__MACOSX/__x')
    >>> len(safe_key("long" * 100)), len(safe_key("long" * 100, "a" * 50))
    (90, 49)
    """
    if not (text.isascii() and text.isprintable()):
        text = "".join("_" if unicodedata.category(char) in _UNSAFE else char for char in text)
    if "." in text or "/" in text:
        text = _safe_path(text)
    if is_meta(f"{text}.txt") or is_meta(text) or not text:
        text = f"x{text}"
    # The name has a dot and the field after the key.
    bytes_for_key = _NAME - 1 - len(field.encode("utf-8", "surrogateescape"))
    return _shortened(text, max(min(_LONGEST, bytes_for_key), _HASHED))


def _safe_path(text: str) -> str:
    """Return a path without dots, and without folders that readers or tools leave out."""
    parts: list[str] = []
    for part in text.split("/"):
        if part:
            is_dots = not part.strip(".")
            parts.append("_" if is_dots else part.replace(".", "_"))
    # Files below this folder are twins that macOS adds to archives, which tools leave out.
    folders = ["x__MACOSX" if part == "__MACOSX" else part for part in parts[:-1]]
    return "/".join(folders + parts[-1:])


def _shortened(text: str, longest: int) -> str:
    """Return a text of at most ``longest`` bytes.

    The end of a longer text is replaced by a hash of the whole text.
    """
    data = text.encode()
    if len(data) <= longest:
        return text
    from xxhash import xxh3_64_hexdigest

    digest = xxh3_64_hexdigest(data)
    bytes_before = max(longest - _HASHED - 1, 0)
    beginning = data[:bytes_before].decode(errors="ignore").rstrip("/")
    return f"{beginning}-{digest}" if beginning else digest
