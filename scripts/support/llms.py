"""Writes llms.txt: a short map of the documentation for programs that read it.

It follows the order of the site.
"""

import re
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
_TREE = re.compile(r"```\{toctree\}\n(.*?)```", re.DOTALL)


def pages() -> str:
    """Return the map: a section for each part of the site, a line for each page."""
    start = (DOCS / "index.md").read_text(encoding="utf-8")
    parts = [f"# wdsflow\n\n> {_first_paragraph(start)}\n"]
    for tree in _TREE.findall(start):
        caption = re.search(r":caption: (.*)", tree)
        lines = [_line(path) for path in _named(tree)]
        parts.append("\n".join([f"## {caption[1] if caption else ''}\n", *lines, ""]))
    return "\n".join(parts)


def _named(tree: str) -> Iterator[Path]:
    for name in (line for line in tree.splitlines() if line and not line.startswith(":")):
        yield from sorted(DOCS.glob(f"{name}.md"))


def _line(path: Path) -> str:
    title = path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
    return f"- [{title}](docs/{path.relative_to(DOCS)})"


def _first_paragraph(text: str) -> str:
    """Return the paragraph after the title."""
    return " ".join(text.split("\n\n")[1].split())
