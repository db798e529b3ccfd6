"""Which columns of a table hold images, captions and keys: as the user says, or as in layouts that are known."""

import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import orjson

from wdsflow.table_files.errors import NoColumn
from wdsflow.text.shell import escape

from .unusable import LONG_TEXT, NO_CAPTION, NO_IMAGE, NO_PATH, NOT_TEXT, Unusable, described

CAPTIONS = ("caption", "text", "title")
# Bytes of a caption.
_LONGEST = 1 << 20
_TOKENS = re.compile(r"<__dj__(?:image|video|audio)>|<(?:image|video|audio)>")
# LLaVA's column.
_TURNS = "conversations"
_CHUNK_END = "<|__dj__eoc|>"
_LIKE_FILES = re.compile("image|img|pic|photo|video|file|path", re.IGNORECASE)
# Columns in a message.
_SHOWN = 50

TableRow = dict[str, Any]
Media = tuple[str, str | bytes]
"""The column of a file, and its path or its bytes."""


class WhichColumn(ValueError):
    """A table in which several columns could be meant, or none.

    Attributes:
        option: names the column.
        columns: those in question; of none, those whose names are like those of files.
    """

    def __init__(self, named: str, option: str, columns: Sequence[str], names: Sequence[str]) -> None:
        self.option = option
        self.columns = columns or [name for name in names if _LIKE_FILES.search(name)]
        contents = {"image": "images or videos", "caption": "captions"}[option]
        shown = ", ".join(escape(name, 60) for name in (columns or names)[:_SHOWN])
        if columns:
            super().__init__(f"{named}: several columns could hold {contents}: {shown}")
        else:
            super().__init__(f"{named}: which column holds {contents}? It has {shown or 'no columns'}")


@dataclass(frozen=True)
class TableLayout:
    """What the columns of a table mean.

    Attributes:
        name: for the report.
        media: columns with files.
        caption: the column with captions; None for none.
        text: how a value of that column becomes a caption.
        whole: the row goes into the json as it is; otherwise without the caption.
        has_bytes: cells may hold bytes, which JSON lacks.
    """

    name: str
    media: tuple[str, ...]
    caption: str | None
    text: Callable[[Any], Any] = field(default=lambda value: value)
    whole: bool = False
    has_bytes: bool = False

    def files(self, row: TableRow) -> list[Media]:
        """Return the files of a row, in order. Raises Unusable."""
        files: list[Media] = []
        for column in self.media:
            value = row.get(column)
            if isinstance(value, str) and value:
                # Nearly always.
                files.append((column, value))
            else:
                files.extend(_files(value, column))
        if not files:
            raise Unusable(NO_IMAGE, "it is empty", self.media[0])
        return files

    def caption_of(self, row: TableRow) -> bytes | None:
        """Return the caption of a row, None if there is no column of captions. Raises Unusable."""
        return None if self.caption is None else caption_bytes(self.text(row.get(self.caption)), self.caption)

    def json(self, row: TableRow) -> bytes:
        """Return what the json holds; empty for nothing."""
        facts = row
        if not self.whole and self.caption in row:
            facts = row.copy()
            del facts[self.caption]
        if self.has_bytes:
            facts = {name: _without_bytes(value) for name, value in facts.items()}
        return json_bytes(facts) if facts else b""

    def __str__(self) -> str:
        captions = f", captions in {escape(self.caption, 60)}" if self.caption is not None else ", no captions"
        return f"{self.name}: files in {' and '.join(escape(column, 60) for column in self.media)}{captions}"


def layout_of(
    columns: Sequence[str],
    pictures: Sequence[str],
    named: str,
    *,
    image: str | None,
    caption: str | None,
    token: str | None,
    text: str,
) -> TableLayout:
    """Return the layout of a table by its columns. Columns that the user named take the place of known ones.

    Args:
        columns: their names.
        pictures: those that hold bytes, or ``{bytes, path}``.
        named: the table.
        image: the column that the user named, if any.
        caption: the same for captions; "" for none.
        token: stands for an image in captions, next to those that are known.
        text: see ``NoColumn``.

    Raises NoColumn, WhichColumn; ValueError if the captions of the table have no tokens.
    """
    for column in filter(None, (image, caption)):
        if columns.count(column) != 1:
            raise NoColumn(named, column, columns, text)
    known = _known(columns, re.compile(f"{re.escape(token)}|{_TOKENS.pattern}") if token else _TOKENS)
    if known is None and image is None:
        candidates = [*pictures, *(["image"] if "image" in columns and "image" not in pictures else [])]
        if len(candidates) != 1:
            raise WhichColumn(named, "image", candidates, columns)
        known = TableLayout("images in cells" if pictures else "columns", (candidates[0],), None)
    if known is None:
        known = TableLayout("columns", (), None)
    if token and not known.whole:
        raise ValueError(f"--image-token is for tables of Data-Juicer and LLaVA, and {named} is none")
    if image is not None:
        known = replace(known, media=(image,))
    if known.caption is None or caption not in (None, known.caption):
        return TableLayout(known.name, known.media, _caption(columns, named, caption), whole=known.whole)
    return known


def _known(columns: Sequence[str], tokens: re.Pattern[str]) -> TableLayout | None:
    lists = tuple(column for column in ("images", "videos") if column in columns)
    if lists and "text" in columns:
        return TableLayout("Data-Juicer", lists, "text", partial(without_tokens, tokens=tokens), whole=True)
    media = tuple(column for column in ("image", "video") if column in columns)
    if media and _TURNS in columns:
        return TableLayout("LLaVA", media, _TURNS, partial(first_answer, tokens=tokens), whole=True)
    if "file_name" in columns:
        return TableLayout("imagefolder metadata", ("file_name",), None)
    if "filepath" in columns and "title" in columns:
        return TableLayout("OpenCLIP's table", ("filepath",), "title")
    return None


def _caption(columns: Sequence[str], named: str, requested: str | None) -> str | None:
    if requested is not None:
        return requested or None
    candidates = [column for column in CAPTIONS if column in columns]
    if len(candidates) > 1:
        raise WhichColumn(named, "caption", candidates, columns)
    return candidates[0] if candidates else None


def _files(value: Any, column: str) -> Iterable[Media]:
    """Yield the files of a cell: a path, bytes, ``{bytes, path}``, or a list of these."""
    for item in value if isinstance(value, list) else [value]:
        file = (item.get("bytes") or item.get("path")) if isinstance(item, dict) else item
        if file is None or file in ("", b""):
            if value is item:
                return
            raise Unusable(NO_PATH, "the list has an empty item", column)
        if not isinstance(file, (str, bytes)):
            raise Unusable(NO_PATH, described(item), column)
        yield column, file


def caption_bytes(value: Any, column: str) -> bytes:
    """Return a caption in UTF-8; of a list its first text. Raises Unusable."""
    if isinstance(value, list):
        value = next((text for text in value if not isinstance(text, str) or text.strip()), None)
    if value is None or (isinstance(value, str) and not value.strip()):
        raise Unusable(NO_CAPTION, "it is empty", column)
    if not isinstance(value, str):
        raise Unusable(NOT_TEXT, described(value), column)
    try:
        data = value.encode()
    except UnicodeEncodeError:
        raise Unusable(NOT_TEXT, f"{value!r:.80} is not UTF-8", column) from None
    if len(data) > _LONGEST:
        raise Unusable(LONG_TEXT, f"{value!r:.40}... has {len(data):,} bytes", column)
    return data


def without_tokens(text: Any, tokens: re.Pattern[str] = _TOKENS) -> Any:
    r"""Return Data-Juicer's text without its tokens, a line for each chunk.

    >>> without_tokens("<__dj__image> a cat <|__dj__eoc|><__dj__image> a dog")
    'a cat\na dog'
    """
    if not isinstance(text, str):
        return text
    chunks = (tokens.sub("", chunk).strip() for chunk in text.split(_CHUNK_END))
    return "\n".join(filter(None, chunks))


def first_answer(turns: Any, tokens: re.Pattern[str] = _TOKENS) -> str:
    r"""Return the first answer of the model in a conversation of LLaVA, without the tokens of images. Raises Unusable.

    >>> first_answer([{"from": "human", "value": "<image>\nWhat?"}, {"from": "gpt", "value": "A cat."}])
    'A cat.'
    """
    if turns is not None and not isinstance(turns, list):
        raise Unusable(NOT_TEXT, f"{described(turns)}, and no list of turns", _TURNS)
    answers = (turn.get("value") for turn in turns or () if isinstance(turn, dict) and turn.get("from") == "gpt")
    text = next(answers, None)
    if text is None:
        raise Unusable(NO_CAPTION, "no answer of gpt", _TURNS)
    if not isinstance(text, str):
        raise Unusable(NOT_TEXT, f"of the answer of gpt, {described(text)}", _TURNS)
    return tokens.sub("", text).strip()


def _without_bytes(value: Any) -> Any:
    """Return a value of a cell for JSON: bytes become null, and an image with bytes its path."""
    if isinstance(value, dict):
        if isinstance(value.get("bytes"), bytes) and value.keys() <= {"bytes", "path"}:
            return value.get("path")
        return {name: _without_bytes(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_without_bytes(part) for part in value]
    return None if isinstance(value, bytes) else value


def json_bytes(facts: dict[str, Any]) -> bytes:
    """Return JSON; values that it lacks, such as times, are text."""
    try:
        return orjson.dumps(facts, default=str)
    except TypeError:
        # Integers of more than 64 bits, and text that is not UTF-8.
        return json.dumps(_finite(facts), default=str, allow_nan=False).encode()


def _finite(value: Any) -> Any:
    """Return a value in which numbers that JSON lacks are null, as orjson writes them."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    return [_finite(part) for part in value] if isinstance(value, (list, tuple)) else value
