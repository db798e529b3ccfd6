"""HTML pages: one file with all that it needs, made from templates; thumbnails and histograms for them."""

from .page import render

__all__ = ["render"]
