"""The syntax trees of our files, read once for all tests that look at them."""

import ast
import gc
from functools import cache
from pathlib import Path


@cache
def parsed(path: Path) -> ast.Module:
    """Return the tree of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    # The garbage collector would look through all trees again and again. What other tests have left
    # is spared as well.
    gc.freeze()
    return tree


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Return all nodes of the tree of a file: to walk through all trees takes a second."""
    found = tuple(ast.walk(parsed(path)))
    gc.freeze()
    return found
