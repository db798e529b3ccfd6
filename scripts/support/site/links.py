"""Checks the pages of a built site.

Links and pictures must lead to files of the site, and nothing may be loaded from elsewhere.
"""

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

# Attributes whose address a browser loads without being asked.
LOADS = {
    ("img", "src"),
    ("script", "src"),
    ("link", "href"),
    ("source", "src"),
    ("iframe", "src"),
    ("object", "data"),
}


class Broken(NamedTuple):
    """A link that leads nowhere, or a file that would be loaded from another place."""

    page: str
    link: str
    reason: str


class _Page(HTMLParser):
    """The ids of a page, and the addresses on it: (tag, attribute, address)."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.addresses: list[tuple[str, str, str]] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the id and the addresses of a tag."""
        for name, value in attrs:
            if name == "id" or (tag == "a" and name == "name"):
                self.ids.add(value or "")
            elif name in {"href", "src", "data"}:
                self.addresses.append((tag, name, value or ""))


def broken_links(folder: Path) -> Iterator[Broken]:
    """Yield the problems of the links of all pages in a folder.

    Links to other hosts are allowed, but nothing may be loaded from them.
    """
    pages = {path.resolve(): _Page(path) for path in sorted(folder.rglob("*.html"))}
    for path, page in pages.items():
        shown = str(path.relative_to(folder.resolve()))
        for tag, name, address in page.addresses:
            parts = urlsplit(address)
            if parts.scheme == "data":
                continue
            if parts.scheme or parts.netloc:
                if (tag, name) in LOADS:
                    yield Broken(shown, address, "is loaded from another host")
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                yield Broken(shown, address, "no such file")
            elif (
                parts.fragment
                and target in pages
                and unquote(parts.fragment) not in pages[target].ids
            ):
                yield Broken(shown, address, "no such place on the page")
