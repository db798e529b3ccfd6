"""Which fields of a sample are its images and its captions."""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from wdsflow.shards.caption_field import CaptionField, parse_caption_field
from wdsflow.shards.output_names import IMAGES, alternatives
from wdsflow.shards.patterns import natural

__all__ = ["CAPTIONS", "IMAGES", "VIDEOS", "FieldNames", "chosen", "parse_captions", "parse_images"]

CAPTIONS = "txt"
VIDEOS = "mp4;webm;mkv;avi;mov"


class FieldNames(NamedTuple):
    """Names of fields to try, and patterns with a star among them."""

    names: tuple[str, ...]


@lru_cache(maxsize=64)
def parse_images(text: str) -> FieldNames:
    """Parse ``jpg;png``: the first field that exists is the image. Raises ValueError.

    If none is there, all numbered ones are: ``0.jpg``, ``1.png``, in the order of their numbers, of any of the names. A
    name with stars, ``*.jpg``, stands for all fields like it, sorted as people count.
    """
    return FieldNames(alternatives(text))


@lru_cache(maxsize=64)
def parse_captions(text: str) -> tuple[FieldNames | CaptionField, ...]:
    """Parse ``txt``, ``txt;text``, ``json:caption;alt``, or several of these, tried in order: ``txt|json:caption``.

    Fields are chosen as for images (``0.txt``, ``1.txt`` are several captions); a list in json is several captions.
    Raises ValueError.

    >>> parse_captions("txt|json:caption;alt")
    (FieldNames(names=('txt',)), CaptionField(member='json', names=('caption', 'alt')))
    """
    return tuple(
        parse_caption_field(part) if ":" in part else FieldNames(alternatives(part)) for part in text.split("|")
    )


def chosen(wanted: FieldNames, fields: Iterable[str]) -> tuple[str, ...]:
    """Return those of a sample's fields that are meant.

    >>> chosen(parse_images("jpg;png"), ["png", "txt", "0.png"])
    ('png',)
    >>> chosen(parse_images("jpg;png"), ["10.png", "9.jpg", "txt", "seg.png"])
    ('9.jpg', '10.png')
    >>> chosen(parse_images("view*.jpg"), ["view10.jpg", "view2.jpg", "jpg"])
    ('view2.jpg', 'view10.jpg')
    """
    there = fields if isinstance(fields, (dict, set, frozenset, list, tuple)) else list(fields)
    for name in wanted.names:
        if "*" in name:
            like = re.compile(".*".join(re.escape(part) for part in name.split("*")), re.DOTALL)
            found = [field for field in there if like.fullmatch(field)]
            if found:
                return tuple(sorted(found, key=natural))
        elif name in there:
            return (name,)
    numbered = [field for field in there if field[:1].isdigit() and _is_numbered(field, wanted.names)]
    return tuple(sorted(numbered, key=natural))


def _is_numbered(field: str, names: tuple[str, ...]) -> bool:
    number, _dot, rest = field.partition(".")
    return rest in names and number.isascii() and number.isdigit()
