"""What a scan is asked: how deep to look, and which fields the consumers take for what."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .consumers.base import Consumer, split_keys
from .content.columns import Columns
from .evidence import Level
from .first_rows import first_columns


@dataclass(frozen=True, slots=True)
class ScanOptions:
    """How deep to look, and what the consumers ask of contents."""

    level: Level = "headers"
    json_text_key: tuple[str, ...] = ()
    max_image_pixels: int = 0  # 0: no limit
    allow_pipe: bool = False
    text_key: tuple[str, ...] = ()  # fields that are captions, although by their names they could be anything
    image_key: tuple[str, ...] = ()  # the same for images
    arrow: bool = False  # some consumer reads through Arrow
    columns: Columns | None = None  # into which values must fit

    def kinds(self) -> dict[str, str]:
        """Return what kind the named fields are; a field that has a decoder of its own keeps it."""
        return dict.fromkeys(self.image_key, "image") | dict.fromkeys(self.text_key, "text")


def scan_options(
    level: Level, readers: Sequence[Consumer], urls: Sequence[str], *, allow_pipe: bool = False
) -> ScanOptions:
    """Return what a scan of these shards for these readers must look at.

    OpenCLIP 4 has flags that ask for things. A reader that makes columns has the first samples of the first shard read.
    """
    options = ScanOptions(level, allow_pipe=allow_pipe, arrow=any(reader.through_arrow for reader in readers))
    if urls and level != "names" and any(reader.makes_columns for reader in readers):
        options = replace(options, columns=first_columns(urls[0], allow_pipe=allow_pipe))
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
