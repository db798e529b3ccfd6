"""Which columns of a table hold images, captions and keys.

The user names them, or they follow a common layout.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from wdsflow.table_files.errors import NoColumn
from wdsflow.text.shell import escape

from ..unusable import NO_IMAGE, NO_PATH, Unusable, described
from .caption_cells import TOKENS, TURNS, caption_bytes, first_answer, without_tokens
from .json_cells import json_bytes, without_bytes

# Columns of captions that are usual.
CAPTIONS = ("caption", "text", "title")
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

    def __init__(
        self, named: str, option: str, columns: Sequence[str], names: Sequence[str]
    ) -> None:
        self.option = option
        self.columns = columns or [name for name in names if _LIKE_FILES.search(name)]
        contents = {"image": "images or videos", "caption": "captions"}[option]
        shown = ", ".join(escape(name, 60) for name in (columns or names)[:_SHOWN])
        if columns:
            super().__init__(f"{named}: several columns could hold {contents}: {shown}")
        else:
            super().__init__(
                f"{named}: which column holds {contents}? It has {shown or 'no columns'}"
            )


@dataclass(frozen=True)
class TableLayout:
    """What the columns of a table mean.

    Attributes:
        name: for the report.
        media: columns with files.
        caption: the column with captions; None for none.
        text: how a value of that column becomes a caption.
        keeps_caption: the row goes into the json as it is; otherwise without the caption.
        has_bytes: cells may hold bytes, which JSON lacks.
    """

    name: str
    media: tuple[str, ...]
    caption: str | None
    text: Callable[[Any], Any] = field(default=lambda value: value)
    keeps_caption: bool = False
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
        if self.caption is None:
            return None
        value = self.text(row.get(self.caption))
        return caption_bytes(value, self.caption)

    def json(self, row: TableRow) -> bytes:
        """Return what the json holds; empty for nothing."""
        facts = row
        if not self.keeps_caption and self.caption in row:
            facts = row.copy()
            del facts[self.caption]
        if self.has_bytes:
            facts = {name: without_bytes(value) for name, value in facts.items()}
        return json_bytes(facts) if facts else b""

    def __str__(self) -> str:
        media = " and ".join(escape(column, 60) for column in self.media)
        captions = "no captions"
        if self.caption is not None:
            captions = f"captions in {escape(self.caption, 60)}"
        return f"{self.name}: files in {media}, {captions}"


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
    """Return the layout of a table by its columns.

    Columns that the user named take precedence over common ones.

    Args:
        columns: their names.
        pictures: those that hold bytes, or ``{bytes, path}``.
        named: the table.
        image: the column that the user named, if any.
        caption: the same for captions; "" for none.
        token: stands for an image in captions, next to the usual ones.
        text: see ``NoColumn``.

    Raises NoColumn, WhichColumn; ValueError if the captions of the table have no tokens.
    """
    for column in filter(None, (image, caption)):
        if columns.count(column) != 1:
            raise NoColumn(named, column, columns, text)
    tokens = re.compile(f"{re.escape(token)}|{TOKENS.pattern}") if token else TOKENS
    layout = _common_layout(columns, tokens)
    if layout is None and image is None:
        layout = _layout_of_pictures(columns, pictures, named)
    if layout is None:
        layout = TableLayout("columns", (), None)
    if token and not layout.keeps_caption:
        raise ValueError(
            f"--image-token is for tables of Data-Juicer and LLaVA, and {named} is none"
        )
    if image is not None:
        layout = replace(layout, media=(image,))
    if layout.caption is None or caption not in (None, layout.caption):
        # The column holds plain captions.
        return TableLayout(
            layout.name,
            layout.media,
            _caption(columns, named, caption),
            keeps_caption=layout.keeps_caption,
        )
    return layout


def _common_layout(columns: Sequence[str], tokens: re.Pattern[str]) -> TableLayout | None:
    """Return the layout of a tool that wrote the table; None if no tool has these columns."""
    lists = tuple(column for column in ("images", "videos") if column in columns)
    if lists and "text" in columns:
        return TableLayout(
            "Data-Juicer", lists, "text", partial(without_tokens, tokens=tokens), keeps_caption=True
        )
    media = tuple(column for column in ("image", "video") if column in columns)
    if media and TURNS in columns:
        return TableLayout(
            "LLaVA", media, TURNS, partial(first_answer, tokens=tokens), keeps_caption=True
        )
    if "file_name" in columns:
        return TableLayout("imagefolder metadata", ("file_name",), None)
    if "filepath" in columns and "title" in columns:
        return TableLayout("OpenCLIP's table", ("filepath",), "title")
    return None


def _layout_of_pictures(columns: Sequence[str], pictures: Sequence[str], named: str) -> TableLayout:
    """Return the layout of a table with one column of images. Raises WhichColumn."""
    candidates = list(pictures)
    if "image" in columns and "image" not in pictures:
        candidates.append("image")
    if len(candidates) != 1:
        raise WhichColumn(named, "image", candidates, columns)
    return TableLayout("images in cells" if pictures else "columns", (candidates[0],), None)


def _caption(columns: Sequence[str], named: str, requested: str | None) -> str | None:
    """Return the column of captions; None if there is none. Raises WhichColumn."""
    if requested is not None:
        return requested or None
    candidates = [column for column in CAPTIONS if column in columns]
    if len(candidates) > 1:
        raise WhichColumn(named, "caption", candidates, columns)
    return candidates[0] if candidates else None


def _files(value: Any, column: str) -> Iterable[Media]:
    """Yield the files of a cell: a path, bytes, ``{bytes, path}``, or a list of these."""
    items = value if isinstance(value, list) else [value]
    for item in items:
        file = item
        if isinstance(item, dict):
            file = item.get("bytes") or item.get("path")
        if file is None or file in ("", b""):
            if value is item:
                # An empty cell, not an empty item of a list.
                return
            raise Unusable(NO_PATH, "the list has an empty item", column)
        if not isinstance(file, (str, bytes)):
            raise Unusable(NO_PATH, described(item), column)
        yield column, file
