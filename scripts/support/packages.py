"""The table of packages at the end of docs/code-map.md.

Each package has the first line of its docstring.
"""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = "docs/code-map.md"
_HEADING = "\n## Packages\n"
# Within wdsflow/, to the folders at the top.
_LINKS = {"validate", "stages"}


def code_map() -> str:
    """Return the page with its table as the packages are now."""
    text, heading, _ = (ROOT / PAGE).read_text(encoding="utf-8").partition(_HEADING)
    rows = [
        f"| `{path.parent.relative_to(ROOT)}/` | {_first_line(path)} |"
        for folder in ("wdsflow", "validate", "stages")
        for path in sorted((ROOT / folder).rglob("__init__.py"))
        if path.parent != ROOT / "wdsflow"
        and path.relative_to(ROOT / folder).parts[0] not in _LINKS
    ]
    return "\n".join((text + heading, "| folder | contents |", "|---|---|", *rows, ""))


def _first_line(path: Path) -> str:
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]
