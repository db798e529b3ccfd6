"""Write the files about shards next to them, in one pass over each shard."""

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from wdsflow.records.refusals import refuse_inputs
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import canonical_name, local_folder
from wdsflow.shards.urls import expand_existing
from wdsflow.text.options import keywords
from wdsflow.text.words import how_many

from .count_files import LENGTH, SIZES, TIMM
from .energon_files import NV_INFO, tar_index
from .folder_index import FolderIndex
from .index_options import KINDS, IndexOptions
from .index_record import IndexRecord
from .index_report import IndexReport
from .listed_shards import listed_shards

# The file about all shards of a folder, for each kind.
_OF_A_FOLDER = {"sizes": SIZES, "len": LENGTH, "timm": TIMM, "energon": NV_INFO}


class PartOfSet(ValueError):
    """The given shards are only a part of those that the existing index files list.

    Writing the files would drop the other shards from them. ``folders`` hold all of the shards.
    """

    def __init__(self, path: Path, left: Sequence[str], folders: Sequence[str]) -> None:
        some = f"{', '.join(left[:3])}{' ...' if len(left) > 3 else ''}"
        super().__init__(
            f"{path} would no longer list {how_many(len(left), 'shard')} that are still there: {some}"
        )
        self.folders = list(folders)


@keywords(IndexOptions)
def index_shards(urls: str | Iterable[str], options: IndexOptions) -> IndexReport:
    """Write files about shards, in the formats of their readers, next to the shards.

    The headers of a shard are read once for all kinds. The same call again reads only shards that
    changed. A file that something else wrote is replaced only by the same contents. A damaged shard
    is not indexed: an index of it would mislead.

    Args:
        urls: shards, as for ``check``.
        options: each is a keyword argument.

    Raises:
        ValueError: unknown kinds; ``database=False`` without the kind ``energon``; urls that match
            nothing, or cannot have files next to them.
        PartOfSet: without ``restart``, a file about all shards lists others that are still there.
        Busy: another run works in the folder.
        OSError: a file cannot be written. Finished files are kept, partial ones removed.
    """
    if options.jobs < 1:
        raise ValueError("jobs must be at least 1")
    if unknown := [kind for kind in options.kinds if kind not in KINDS]:
        raise ValueError(f"there is no kind {unknown[0]!r}; there are {', '.join(KINDS)}")
    if not options.database and "energon" not in options.kinds:
        raise ValueError("only --energon has a database: add it, or leave out --no-database")
    kinds = tuple(kind for kind in KINDS if kind in options.kinds)
    out = None if options.out is None else local_folder(options.out)
    folders = _by_folder(list(dict.fromkeys(expand_existing(urls, allow_pipe=True))), out)
    for folder, shards in folders.items():
        _check_names(folder, shards, kinds)
    if not options.restart:
        _refuse_part(folders, kinds)
    report = IndexReport()
    for folder, shards in folders.items():
        with IndexRecord(folder, report, restart=options.restart) as record:
            record.begin({}, [])
            folder_index = FolderIndex(shards, kinds, record, database=options.database)
            folder_index.run(options.jobs, options.begin)
    report.check()
    return report


def _by_folder(urls: Sequence[Shard], out: Path | None) -> dict[Path, dict[str, Shard]]:
    """Return the shards by the folder of their index files, then by base name.

    Raises ValueError.
    """
    by_folder: dict[Path, dict[str, Shard]] = {}
    # Folders may be named in several ways: one name for each, by its real path.
    names: dict[str, Path] = {}
    for url in urls:
        path = url.path
        if url.is_pipe:
            raise ValueError(
                f"the output of a command has no name: name the shards as files or urls: {url}"
            )
        if path is None and out is None:
            raise ValueError(f"{url} is not a local file: give a folder for the files")
        home = "" if path is None else os.path.realpath(os.path.dirname(path) or ".")
        folder = out or names.setdefault(home, Path(os.path.dirname(str(path)) or "."))
        name = os.path.basename(path if path is not None else urlsplit(url).path)
        first = by_folder.setdefault(folder, {}).setdefault(name, url)
        if canonical_name(first) != canonical_name(url):
            raise ValueError(f"{first} and {url} have the same name: index one folder at a time")
    return by_folder


def _check_names(folder: Path, shards: Mapping[str, Shard], kinds: Collection[str]) -> None:
    """Raise ValueError or FileExistsError if files would replace each other, or a shard."""
    # What each file is about.
    files = dict.fromkeys((_OF_A_FOLDER[kind] for kind in kinds), "all shards")
    if "energon" in kinds:
        for shard in shards:
            name = tar_index(shard)
            if name in files:
                raise ValueError(
                    f"{shard} and {files[name]} would have the same file {name}: rename the shard"
                )
            files[name] = shard
    refuse_inputs(shards.values(), [folder / name for name in files])


def _refuse_part(folders: Mapping[Path, Mapping[str, Shard]], kinds: Collection[str]) -> None:
    """Raise PartOfSet if an index file would drop shards that still exist.

    Such shards are looked for next to the given ones.
    """
    paths = {url: url.path for shards in folders.values() for url in shards.values()}
    homes = {url: os.path.dirname(path) or "." for url, path in paths.items() if path is not None}
    for folder, shards in folders.items():
        next_to = {homes[url] for url in shards.values() if url in homes}
        for file, names in listed_shards(folder, kinds).items():
            still_there: list[str] = []
            for name in names:
                paths_of_name = [os.path.join(home, name) for home in next_to]
                if name not in shards and any(map(os.path.isfile, paths_of_name)):
                    still_there.append(name)
            if still_there:
                raise PartOfSet(file, still_there, list(dict.fromkeys(homes.values())))
