"""Shard sets for readers that find samples by an index.

Each set has its own folder, with the index next to the shards.
"""

import shutil
from pathlib import Path

from wdsflow import index_shards
from wdsflow.readers import READERS
from wdsflow.shards.urls import NoShards

_CAPTIONING = """
sample_type: {__module__: megatron.energon, __class__: CaptioningSample}
field_map: {image: "jpg,png,jpeg,webp", caption: txt}
"""
_CRUDE = "{__module__: megatron.energon, __class__: CrudeWebdataset}"


def folder_of(reader: str, seed: int, folder: Path) -> Path:
    """Return the folder for the shards of a seed."""
    if not READERS[reader].reads_index:
        return folder
    home = folder / f"{seed:06d}"
    home.mkdir()
    return home


def write_index(reader: str, home: Path) -> None:
    """Write the index of the shards in a folder as people do, and the settings that they edit."""
    if not READERS[reader].reads_index:
        return
    try:
        index_shards(str(home), [reader.removesuffix("-crude")])
    except NoShards:
        return
    settings = home / ".nv-meta" / "dataset.yaml"
    if settings.exists() and ("Crude" in settings.read_text()) != (reader == "energon-crude"):
        settings.write_text(_CRUDE if reader == "energon-crude" else _CAPTIONING)


def clear(reader: str, home: Path) -> None:
    """Remove what is left in the folder."""
    if READERS[reader].reads_index:
        shutil.rmtree(home)
