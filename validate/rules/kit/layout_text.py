"""What rules say where samples are not image-text pairs."""

from wdsflow.scan.layouts import layout_of

from .base import Context


def reads_pairs(titles: str, readers: int) -> str:
    """Return what readers of image-text pairs do with samples of another layout; ``titles`` names so many readers."""
    return f"{titles} use{'s' if readers == 1 else ''} only one image and one caption of each"


def layout_hint(context: Context) -> str:
    """Return a remark on a set that no renamed field makes one of image-text pairs, "" for all others."""
    layout = layout_of(context.evidence.shards)
    if layout.is_image_text:
        return ""
    feed = "wdsflow-train" in context.names()
    return f"; the layout is {layout.text()}{'; wdsflow train feeds image-text pairs only' if feed else ', not image-text pairs'}"
