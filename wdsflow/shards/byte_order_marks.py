"""Texts in UTF-16 and UTF-32, which begin with a byte order mark."""

import codecs

# UTF-32 before UTF-16: its little-endian mark begins with the other's.
_ENCODINGS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def encoding_of(data: bytes) -> str:
    r"""Return the encoding of a text, judged by its byte order mark.

    "utf-16" or "utf-32" with such a mark, otherwise "utf-8".

    >>> encoding_of(b"\xff\xfeh\0i\0"), encoding_of(b"hi")
    ('utf-16', 'utf-8')
    """
    for mark, encoding in _ENCODINGS.items():
        if data.startswith(mark):
            return encoding
    return "utf-8"
