"""What a scan is asked: how deep to look, and which fields the consumers take for what."""

from collections.abc import Sequence
from dataclasses import dataclass

from .consumers.base import Consumer, split_keys
from .evidence import Level


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

    def kinds(self) -> dict[str, str]:
        """Return what kind the named fields are; a field that has a decoder of its own keeps it."""
        return dict.fromkeys(self.image_key, "image") | dict.fromkeys(self.text_key, "text")


def scan_options(level: Level, readers: Sequence[Consumer], *, allow_pipe: bool = False) -> ScanOptions:
    """Return what a scan for these consumers must look at; only OpenCLIP 4 has flags that ask for anything."""
    new = next((reader.options for reader in readers if reader.name == "open-clip-4"), None)
    arrow = any(reader.through_arrow for reader in readers)
    if new is None:
        return ScanOptions(level, allow_pipe=allow_pipe, arrow=arrow)
    return ScanOptions(
        level,
        json_text_key=split_keys(new.json_text_key),
        max_image_pixels=new.max_image_pixels,
        allow_pipe=allow_pipe,
        text_key=() if new.json_text_key else split_keys(new.text_key),
        image_key=split_keys(new.image_key),
        arrow=arrow,
    )
