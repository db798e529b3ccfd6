"""How readers behave: OpenCLIP, webdataset, timm, Hugging Face datasets, Ray Data, Energon.

Each file has the readers of one library; the catalog has their names.
"""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace

from wdsflow.readers.open_clip.versions import OpenClip4, OpenClip33
from wdsflow.scan.evidence import Level, ScanOptions
from wdsflow.shards.shard import Shard

from .base import Fate, Options, Reader
from .datasets import Datasets
from .datasets_columns import first_columns
from .datasets_tables import DatasetsTables
from .energon import Energon
from .energon_crude import EnergonCrude
from .installed_versions import release_numbers
from .ray_data import RayData
from .timm import Timm
from .webdataset import WebDataset02, WebDataset1

__all__ = [
    "READERS",
    "Datasets",
    "DatasetsTables",
    "Energon",
    "EnergonCrude",
    "Fate",
    "OpenClip4",
    "OpenClip33",
    "Options",
    "RayData",
    "Reader",
    "Timm",
    "UnknownReader",
    "WebDataset02",
    "WebDataset1",
    "resolve",
    "scan_options",
]

READERS: dict[str, type[Reader]] = {
    reader.name: reader
    for reader in (
        OpenClip33,
        OpenClip4,
        WebDataset1,
        WebDataset02,
        Datasets,
        DatasetsTables,
        RayData,
        Timm,
        Energon,
        EnergonCrude,
    )
}

INSTALLED_OPEN_CLIP = "open-clip"


class UnknownReader(LookupError):
    """A name that no reader has; the message names the readers."""

    def __init__(self, name: str) -> None:
        names = [INSTALLED_OPEN_CLIP, *READERS]
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
        super().__init__(f"unknown reader {name!r}: {hint}")
        self.name = name


def resolve(name: str, environment: Mapping[str, str]) -> list[str]:
    """Return the catalog names for the name of a reader.

    ``open-clip`` stands for the installed version.

    Args:
        name: as the user wrote it.
        environment: distribution -> installed version.

    Raises:
        UnknownReader: if no reader has that name.

    >>> resolve("open-clip", {"open_clip_torch": "4.1.0"}), resolve("open-clip", {})
    (['open-clip-4'], ['open-clip-3.3'])
    """
    if name in READERS:
        return [name]
    if name != INSTALLED_OPEN_CLIP:
        raise UnknownReader(name)
    version = environment.get("open_clip_torch") or environment.get("open-clip-torch") or ""
    return [OpenClip4.name if release_numbers(version) >= (4,) else OpenClip33.name]


def scan_options(
    level: Level, readers: Sequence[Reader], urls: Sequence[Shard], *, allow_pipe: bool = False
) -> ScanOptions:
    """Return the options of a scan of these shards for these readers.

    A reader adds what its own options ask for. One that makes columns has the first samples of the
    first shard read.
    """
    options = ScanOptions(
        level, allow_pipe=allow_pipe, arrow=any(reader.through_arrow for reader in readers)
    )
    if urls and level != "names" and any(reader.makes_columns for reader in readers):
        tables = any(reader.writes_tables for reader in readers)
        options = replace(
            options, columns=first_columns(urls[0], allow_pipe=allow_pipe, tables=tables)
        )
    for reader in readers:
        options = reader.scan_options(options)
    return options
