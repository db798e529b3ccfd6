"""The syntax trees of our files, read once for all tests that look at them."""

import ast
from functools import cache
from pathlib import Path


@cache
def parsed(path: Path) -> ast.Module:
    """Return the tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Return all nodes of the tree of a file: to walk through all trees takes a second."""
    return tuple(ast.walk(parsed(path)))
