"""The rows of a folder or zip without a table.

A row is a group of files whose names begin alike. Folders can be classes.
"""

from collections import Counter
from dataclasses import dataclass, field

from wdsflow.repair.clean_names import tidy_names
from wdsflow.shards.numbered_names import natural_order
from wdsflow.shards.shard import Shard
from wdsflow.shards.tar.members import split_as_webdataset
from wdsflow.table_files.errors import TableError
from wdsflow.text.shell import escape, quote_path
from wdsflow.text.words import how_many

from ..files.field_types import is_media
from ..files.media_files import MediaFiles
from ..unusable import NO_CAPTION, NO_IMAGE, Unusable
from .inputs import table_kind
from .json_cells import json_bytes
from .keys import safe_key
from .table import starts_with_bracket

# After the images, in this order.
_TEXTS = {"txt": 1, "json": 2}
# Files of JSON without an image that are looked at.
_MOST_JSON = 100
# Bytes of a file of JSON that are read.
_HEAD = 1 << 16
# Tables in a message.
_SHOWN = 5


class HoldsTables(TableError):
    """A folder or zip contains tables, whose captions would be lost.

    ``tables``: their paths, as arguments.
    """

    def __init__(self, named: str, tables: list[str]) -> None:
        is_zip = named.lower().endswith(".zip")
        count = "a table" if len(tables) == 1 else f"{len(tables):,} tables"
        shown = ", ".join(escape(table, 200) for table in tables[:_SHOWN])
        more = f" and {len(tables) - _SHOWN:,} more" if len(tables) > _SHOWN else ""
        self.named = named
        message = f"{named} holds {count}: {shown}{more}"
        if is_zip:
            self.tables = []
            super().__init__(message, _of_zip(named, tables[0]))
        else:
            self.tables = [f"{named.rstrip('/')}/{table}" for table in tables]
            them = "it" if len(tables) == 1 else "them"
            super().__init__(f"{message}; name {them} instead of the folder")


def _of_zip(named: str, table: str) -> str:
    """Return the commands that pack a table of a zip: paths in it are relative to its folder."""
    archive, path = quote_path(named), quote_path(table)
    if "/" in table:
        return f"unzip {archive} -d FOLDER, then: wdsflow pack FOLDER/{path} -o OUT"
    return f"unzip {archive} {path}, then: wdsflow pack {path} --root {archive} -o OUT"


@dataclass
class FileGroup:
    """The files of a sample: names of fields, and paths below the folder."""

    key: str
    files: dict[str, str] = field(default_factory=dict)

    @property
    def has_media(self) -> bool:
        """Whether one of them is an image or a video by its name."""
        return any(map(is_media, self.files))


class FolderRows:
    """The samples of a folder.

    Attributes:
        ignored: files that belong to no sample, by reason.
        groups: files by sample, in the order of their names.
        classes: the first folders of all samples, if these are classes: no image has a text, and
            each is in a folder.
    """

    def __init__(self, files: MediaFiles, named: str) -> None:
        self.ignored: Counter[str] = Counter()
        paths = sorted(files.names())
        self.ignored.update(files.passed_over)
        self.groups = self._groups_of(paths)
        tables = self._tables(paths, files)
        if tables:
            raise HoldsTables(named, tables)
        if not any(group.has_media for group in self.groups):
            raise TableError(f"{named} holds no table, and no image or video")
        self.has_captions = any("txt" in group.files for group in self.groups)
        self.classes = self._class_folders()

    @property
    def name(self) -> str:
        """What kind of folder it is, for the report."""
        if self.classes:
            return f"{how_many(len(self.classes), 'folder')} of classes, numbered in cls by name"
        if self.has_captions:
            return "files with the same name, images with txt"
        return "files with the same name"

    def _groups_of(self, paths: list[str]) -> list[FileGroup]:
        """Return the files by sample; those that belong to none are counted."""
        groups: dict[str, FileGroup] = {}
        tidy = tidy_names(paths)
        for path, name, reason in zip(paths, tidy.names, tidy.reasons, strict=True):
            parts = split_as_webdataset(name) if name is not None else None
            if parts is None:
                self.ignored[reason or "metadata"] += 1
                continue
            key, field_name = parts
            group = groups.setdefault(key, FileGroup(key))
            if field_name in group.files:
                self.ignored["second file of the same field"] += 1
            group.files[field_name] = path
        return list(groups.values())

    def _class_folders(self) -> list[str]:
        """Return the first folders of all samples, if these are classes; otherwise none."""
        if self.has_captions or any("json" in group.files for group in self.groups):
            return []
        folders: set[str] = set()
        for group in self.groups:
            folders.update(map(_first_folder, group.files.values()))
        if len(folders) < 2 or "" in folders:
            return []
        return sorted(folders)

    def _tables(self, paths: list[str], files: MediaFiles) -> list[str]:
        """Return the tables next to the files.

        A file that shares its name with an image belongs to the image and is no table.

        Of .json files these are arrays; the first ones are looked at.
        """
        with_media: set[str] = set()
        for group in self.groups:
            if group.has_media:
                with_media.update(group.files.values())
        tables: set[str] = set()
        json_files: list[str] = []
        for path in paths:
            if path in with_media or _is_hidden(path):
                continue
            kind = table_kind(path)
            if kind == "json":
                json_files.append(path)
            elif kind not in ("", "zip"):
                tables.add(path)
        for path in json_files[:_MOST_JSON]:
            if _is_array(path, files):
                tables.add(path)
        return sorted(tables, key=natural_order)

    def fields(self, group: FileGroup) -> list[tuple[str, str]]:
        """Return the fields and paths of a sample, images first, texts last. Raises Unusable."""
        if not group.has_media:
            raise Unusable(NO_IMAGE, f"only {', '.join(sorted(group.files.values()))!r:.200}")
        if self.has_captions and "txt" not in group.files:
            raise Unusable(NO_CAPTION, f"{group.key!r:.200} has no txt")
        return sorted(group.files.items(), key=lambda item: _field_order(item[0]))

    def texts(self, group: FileGroup) -> list[tuple[str, bytes]]:
        """Return the class of a sample, where folders are classes."""
        if not self.classes:
            return []
        folder = _first_folder(next(iter(group.files.values())))
        return [
            ("cls", b"%d" % self.classes.index(folder)),
            ("json", json_bytes({"class": folder})),
        ]

    def key(self, group: FileGroup) -> str:
        """Return the key of a sample.

        It is cut so that the longest file name fits a plain header.
        """
        longest = max(group.files, key=lambda name: len(name.encode("utf-8", "surrogateescape")))
        return safe_key(group.key, longest)


def _field_order(name: str) -> tuple[object, ...]:
    """Return what fields are sorted by: images, other files, then texts."""
    return _TEXTS.get(name, 0), not is_media(name), natural_order(name)


def _is_hidden(path: str) -> bool:
    """Return whether a file is of a system, or of a run of wdsflow."""
    return any(part.startswith((".", "__MACOSX")) for part in path.split("/"))


def _is_array(path: str, files: MediaFiles) -> bool:
    try:
        return starts_with_bracket(files.open(files.find(Shard.file(path)), _HEAD).first)
    except Unusable:
        return False


def _first_folder(path: str) -> str:
    return path.partition("/")[0] if "/" in path else ""
