"""What a scan is asked: how deep to look, and which fields are taken for what."""

from dataclasses import dataclass

from wdsflow.scan.content.fitting import Columns

from .evidence import Level


@dataclass(frozen=True, slots=True)
class ScanOptions:
    """How deep to look, and what readers ask of contents."""

    level: Level = "headers"
    json_text_key: tuple[str, ...] = ()
    max_image_pixels: int = 0  # 0: no limit
    allow_pipe: bool = False
    text_key: tuple[str, ...] = ()  # fields that are captions, although by their names they could be anything
    image_key: tuple[str, ...] = ()  # the same for images
    arrow: bool = False  # some reader reads through Arrow
    columns: Columns | None = None  # into which values must fit
    identify: bool = False  # hash all bytes as they are stored
    varieties: bool = False  # tell kinds of values apart, to try code on rare ones

    def kinds(self) -> dict[str, str]:
        """Return what kind the named fields are; a field that has a decoder of its own keeps it."""
        return dict.fromkeys(self.image_key, "image") | dict.fromkeys(self.text_key, "text")
