"""How readers behave: OpenCLIP, webdataset, timm, Hugging Face datasets, Ray Data, Energon, DALI, wids. The readers of one library are in one file; the catalog has their names."""

import difflib
from collections.abc import Mapping

from wdsflow.readers.open_clip.versions import OpenClip4, OpenClip33

from .base import Fate, Options, Reader
from .dali import Dali
from .datasets import Datasets, DatasetsTables
from .energon import Energon, EnergonCrude
from .installed_versions import release
from .ray_data import RayData
from .timm import Timm
from .webdataset import WebDataset02, WebDataset1
from .wids import Wids

__all__ = [
    "READERS",
    "Dali",
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
    "Wids",
    "resolve",
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
        Dali,
        Wids,
    )
}

INSTALLED_OPEN_CLIP = "open-clip"


class UnknownReader(LookupError):
    """A name that no reader has; the message says which there are."""

    def __init__(self, name: str) -> None:
        names = [INSTALLED_OPEN_CLIP, *READERS]
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
        super().__init__(f"unknown reader {name!r}: {hint}")
        self.name = name


def resolve(name: str, environment: Mapping[str, str]) -> list[str]:
    """Return the catalog names that a name stands for; ``open-clip`` is that of the installed version.

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
    return [OpenClip4.name if release(version) >= (4,) else OpenClip33.name]
