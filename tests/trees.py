"""The syntax trees of our files, read once for all tests that look at them."""

import ast
from functools import cache
from pathlib import Path


@cache
def parsed(path: Path) -> ast.Module:
    """Return the tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))
