"""What a scan must look at for some readers."""

from collections.abc import Sequence
from dataclasses import replace

from wdsflow.readers.base import Reader, split_keys
from wdsflow.readers.datasets import first_columns
from wdsflow.scan.evidence import Level
from wdsflow.scan.scan_options import ScanOptions


def scan_options(
    level: Level, readers: Sequence[Reader], urls: Sequence[str], *, allow_pipe: bool = False, varieties: bool = False
) -> ScanOptions:
    """Return what a scan of these shards for these readers must look at.

    OpenCLIP 4 has flags that ask for things. A reader that makes columns has the first samples of the first shard read.
    """
    options = ScanOptions(
        level,
        allow_pipe=allow_pipe,
        varieties=varieties,
        arrow=any(reader.through_arrow for reader in readers),
    )
    if urls and level != "names" and any(reader.makes_columns for reader in readers):
        tables = any(reader.writes_tables for reader in readers)
        options = replace(options, columns=first_columns(urls[0], allow_pipe=allow_pipe, tables=tables))
    new = next((reader.options for reader in readers if reader.name == "open-clip-4"), None)
    if new is None:
        return options
    return replace(
        options,
        json_text_key=split_keys(new.json_text_key),
        max_image_pixels=new.max_image_pixels,
        text_key=() if new.json_text_key else split_keys(new.text_key),
        image_key=split_keys(new.image_key),
    )
