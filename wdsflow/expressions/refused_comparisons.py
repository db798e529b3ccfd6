"""Comparisons that Python allows and that would not mean what they look like."""

import ast
from collections.abc import Callable, Container

from .syntax import ExpressionText
from .tree import Node
from .unknown_names import OTHER_CONSTANTS


def refuse_mixed_chain(source: ExpressionText, tree: ast.Compare) -> None:
    """Refuse ``1 < x in (2, 3)``."""
    for sign, operand in zip(tree.ops, tree.comparators, strict=True):
        if isinstance(sign, (ast.In, ast.NotIn, ast.Is, ast.IsNot)):
            detail = "`in` and `is` have no part in a chain"
            hint = "put the comparison in parentheses, or join two by `and`"
            raise source.error(source.span(operand), detail, hint)


def refuse_none(source: ExpressionText, tree: ast.Compare, scores: Container[str]) -> None:
    """Refuse ``x == None``: nothing is equal to a value that is missing."""
    for operand in (tree.left, *tree.comparators):
        if _means_none(operand, scores):
            other = tree.comparators[0] if operand is tree.left else tree.left
            quoted = source.quoted(source.span(other))
            hint = f"write `{quoted} is None` or `{quoted} is not None`"
            span = source.span(operand)
            raise source.error(span, "nothing is equal to a missing value", hint)


def _means_none(operand: ast.expr, scores: Container[str]) -> bool:
    """Return whether an operand is None, or what other languages call it, such as null."""
    if isinstance(operand, ast.Constant):
        return operand.value is None
    if not isinstance(operand, ast.Name) or operand.id in scores:
        return False
    return OTHER_CONSTANTS.get(operand.id.lower()) == "None"


def refuse_compared_fold(
    source: ExpressionText, tree: ast.Compare, translate: Callable[[ast.expr], Node]
) -> None:
    """Refuse ``any(width) > 3`` with the hint that the comparison belongs inside."""
    fold = tree.left
    if len(tree.ops) > 1 or not isinstance(fold, ast.Call):
        return
    if not isinstance(fold.func, ast.Name) or fold.func.id not in {"any", "all"}:
        return
    if len(fold.args) != 1 or translate(fold.args[0]).kind == "boolean":
        return
    name = fold.func.id
    start, end = source.span(fold.args[0])
    item = source.text[start:end]
    _, end_of_fold = source.span(fold)
    _, end_of_tree = source.span(tree)
    comparison = source.text[end_of_fold:end_of_tree].strip()
    detail = f"{name}(...) needs a condition or a comparison"
    raise source.error(source.span(fold), detail, f"write {name}({item} {comparison})")


def refuse_is(source: ExpressionText, tree: ast.Compare) -> None:
    """Refuse ``x is 3``."""
    (right,) = tree.comparators
    if isinstance(right, ast.Constant) and right.value is None:
        return
    quoted = source.quoted(source.span(tree.left))
    hint = f"write `{quoted} is None` or `{quoted} is not None`; compare values with =="
    raise source.error(source.span(right), "`is` only tests for None", hint)


def refuse_list_of_one(source: ExpressionText, right: ast.expr) -> None:
    """Refuse ``language in ('en')``, which contains no list.

    For Python this is a test for a part of a text.
    """
    if not isinstance(right, ast.Constant):
        return
    start, end = source.span(right)
    before = source.text[:start].rstrip()
    after = source.text[end:].lstrip()
    if before.endswith("(") and after.startswith(")"):
        quoted = source.quoted((start, end))
        raise source.error((start, end), "a list of one needs a comma", f"write ({quoted},)")
