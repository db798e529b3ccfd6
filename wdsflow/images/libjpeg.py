"""Simplejpeg where it is installed, and which JPEGs no decoder should be given."""

from collections.abc import Callable
from functools import cache
from typing import Any

_MOST_SCANS = 100
_MOST_SCANNED = 4_000_000_000  # pixels times scans: a small progressive file can keep a decoder busy for hours


@cache
def load_simplejpeg() -> Callable[..., Any] | None:
    """Return simplejpeg's decoder, None if it is not installed."""
    try:
        from simplejpeg import decode_jpeg
    except ImportError:
        return None
    return decode_jpeg  # type: ignore[no-any-return]


def keeps_busy(data: bytes, pixels: int) -> bool:
    """Return whether a progressive JPEG has so many scans that decoding it would take minutes or hours."""
    scans = data.count(b"\xff\xda")
    return scans > _MOST_SCANS and scans * pixels > _MOST_SCANNED
