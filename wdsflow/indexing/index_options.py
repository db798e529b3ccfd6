"""The options of ``index``."""

import os
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, fields

from wdsflow.shards.thread_jobs import Begin
from wdsflow.text.options import folder, option

DEFAULT = ("sizes", "len")


@dataclass(frozen=True, kw_only=True)
class IndexKinds:
    """The kinds of files about shards."""

    sizes: bool = option(False, "sizes.json: OpenCLIP, DataComp.")
    len: bool = option(False, "__len__: OpenCLIP.")
    energon: bool = option(False, ".nv-meta, and NAME.tar.idx for each shard: Megatron Energon.")
    timm: bool = option(False, "_info.json: timm.")


KINDS = tuple(each.name for each in fields(IndexKinds))


@dataclass(frozen=True)
class IndexOptions:
    """The options of ``index_shards``.

    Attributes:
        kinds: names of ``IndexKinds``.
        begin: called with the number of shards to read; it returns a function that is called after
            each of them.
    """

    kinds: Sequence[str] = DEFAULT
    _: KW_ONLY
    out: str | os.PathLike[str] | None = option(
        None,
        "Folder for the files, if shards are not local or cannot have files next to them.",
        "--output",
        "-o",
        metavar="FOLDER",
        parse=folder,
    )
    restart: bool = option(
        False,
        "Index all shards again, and replace files that something else wrote; or read only shards that changed (default).",
        "--restart/--resume",
    )
    database: bool = option(
        True,
        "With --energon: also write index.sqlite, from which energon mount and auxiliary data get samples by key; training does without.",
        "--database/--no-database",
    )
    jobs: int = option(2, "Shards read at once.", metavar="N", least=1)
    begin: Begin | None = None
