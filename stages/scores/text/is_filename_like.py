"""Whether a caption is the name of a file."""

import re
from dataclasses import dataclass
from typing import ClassVar

from ..base import Kind, TextScore

_LONGEST = 255  # characters of a file's name
_EXTENSIONS = "jpe?g|jfif|png|gif|webp|avif|heic|bmp|tiff?|svg|psd|raw|cr2|nef|arw|dng|mp4|mov|avi|webm|mkv|pdf"
_FILE = re.compile(rf"[^\n]*\.(?:{_EXTENSIONS})(?:[?#]\S*)?", re.IGNORECASE)
_CAMERA = re.compile(
    r"(?:img|image|pic|picture|photo|foto|dsc|dscn|dscf|dsci|pxl|mvimg|wp|vid|gopr|dji|sam|cimg|imag|imgp|_mg|"
    r"screenshot|screen[ _-]shot|untitled|scan|file|download)[ _-]*[(#]?[0-9][0-9 ._:()-]*(?:[ _-](?:copy|edit|hdr|[a-z]))?",
    re.IGNORECASE,
)
_TOKEN = re.compile(r"[0-9a-z_.()-]+", re.IGNORECASE)
_HEX = re.compile(r"(?=[0-9a-f-]*[0-9])(?=[0-9a-f-]*[a-f])[0-9a-f-]{8,}", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class IsFilenameLike(TextScore):
    """Whether the caption is a file's name or a camera's number instead of a description.

    True if the whole caption ends like a picture file ("cat 2.jpg"), or is a number by a camera or program ("IMG_1234",
    "Screenshot 2020-01-02"), a hexadecimal name of at least 8 digits, or one word of at least five characters, half of
    them digits ("20190512_113045"). Source: our own.
    """

    name: ClassVar[str] = "is_filename_like"
    kind: ClassVar[Kind] = "boolean"

    def of(self, text: str) -> bool:
        """Return whether it is one."""
        text = text.strip()
        if not text or len(text) > _LONGEST:
            return False
        if _FILE.fullmatch(text) or _CAMERA.fullmatch(text):
            return True
        if not _TOKEN.fullmatch(text):
            return False
        digits = sum(map(str.isdigit, text))
        return _HEX.fullmatch(text) is not None or (len(text) >= 5 and 2 * digits >= len(text))
