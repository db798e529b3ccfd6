"""The meaning of an expression in plain Python: an independent evaluator.

It works on Python's syntax tree.

A value is a number, a text, True, False, or None if it is unknown. Values of a sample are given as
lists with one item for each image or caption; most have one.
"""

import ast
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

Value = float | str | bool | None
Sample = Mapping[str, list[Value]]

ARITHMETIC: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: lambda one, other: one + other,
    ast.Sub: lambda one, other: one - other,
    ast.Mult: lambda one, other: one * other,
    ast.Div: lambda one, other: one / other,
    ast.FloorDiv: lambda one, other: one // other,
    ast.Mod: lambda one, other: one % other,
}
COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: lambda one, other: one < other,
    ast.LtE: lambda one, other: one <= other,
    ast.Gt: lambda one, other: one > other,
    ast.GtE: lambda one, other: one >= other,
    ast.Eq: lambda one, other: one == other,
    ast.NotEq: lambda one, other: one != other,
}
FUNCTIONS: dict[str, Callable[..., Value]] = {
    "lower": lambda text: "".join(char.lower() for char in text),
    "upper": lambda text: "".join(char.upper() for char in text),
    "strip": str.strip,
    "contains": lambda text, part: part in text,
    "startswith": str.startswith,
    "endswith": str.endswith,
    "matches": lambda text, pattern: re.search(pattern, text, re.ASCII) is not None,
    "length": lambda text: float(len(text)),
    "words": lambda text: float(len(text.split())),
    "abs": abs,
    "round": lambda number: float(round(number)) if math.isfinite(number) else number,
}
SIZES = {"KB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 1024.0, "MiB": 1024.0**2, "GiB": 1024.0**3}
OVER = {"any", "all", "min", "max", "mean"}


def meaning(text: str, sample: Sample) -> bool | None:
    """Return whether a condition holds for a sample; for several items, for each of them."""
    result: bool | None = fold("all", ast.parse(text, mode="eval").body, sample)
    return result


def fold(how: str, tree: ast.expr, sample: Sample) -> Any:
    """Return a value over the items of a sample."""
    names = [name for name in names_of(tree) if len(sample[name]) > 1]
    most = max((len(sample[name]) for name in names), default=1)
    results = [value_of(tree, sample, number, most) for number in range(most)]
    if how in {"all", "any"}:
        decisive = how == "any"
        return decisive if decisive in results else None if None in results else not decisive
    if None in results:
        return None
    return {"min": min, "max": max, "mean": lambda numbers: sum(numbers) / len(numbers)}[how](
        results
    )


def names_of(tree: ast.AST) -> set[str]:
    """Return the columns of a tree, without those below any(), min() and the like."""
    if isinstance(tree, ast.Name):
        return set() if tree.id in SIZES else {tree.id}
    if isinstance(tree, ast.Call):
        function = ast.unparse(tree.func)
        if function in OVER:
            return set()
        if function not in FUNCTIONS:
            return {ast.unparse(tree)}
        return set().union(*map(names_of, tree.args))
    return set().union(*map(names_of, ast.iter_child_nodes(tree)))


def value_of(tree: ast.expr, sample: Sample, number: int, most: int) -> Any:
    """Return the value of a tree for one of several items."""

    def of(part: ast.expr) -> Any:
        return value_of(part, sample, number, most)

    def column(name: str) -> Value:
        items = sample[name]
        if len(items) == 1:
            return plain(items[0])
        return plain(items[number]) if len(items) == most else None

    match tree:
        case ast.Constant(value):
            return value if isinstance(value, (bool, str)) else float(value)
        case ast.Name(name):
            return SIZES[name] if name in SIZES else column(name)
        case ast.Call(ast.Name(name), [part]) if name in OVER:
            return fold(name, part, sample)
        case ast.Call(ast.Name(name), parts) if name in FUNCTIONS:
            values = [of(part) for part in parts]
            return None if None in values else FUNCTIONS[name](*values)
        case ast.Call():
            return column(ast.unparse(tree))
        case ast.BoolOp(word, parts):
            return kleene(isinstance(word, ast.Or), [of(part) for part in parts])
        case ast.UnaryOp(ast.Not(), part):
            return None if of(part) is None else not of(part)
        case ast.UnaryOp(ast.USub(), part):
            return None if of(part) is None else -of(part)
        case ast.BinOp(left, sign, right):
            return arithmetic(sign, of(left), of(right))
        case ast.IfExp(test, then, other):
            chosen = of(test)
            return None if chosen is None else of(then) if chosen else of(other)
        case ast.Compare(left, signs, parts):
            return kleene(False, links(signs, [left, *parts], of))
    raise AssertionError(ast.dump(tree))


def links(
    signs: list[ast.cmpop], parts: list[ast.expr], of: Callable[[ast.expr], Any]
) -> list[bool | None]:
    results: list[bool | None] = []
    for sign, left, right in zip(signs, parts, parts[1:], strict=False):
        if isinstance(sign, (ast.Is, ast.IsNot)):
            results.append((of(left) is None) is isinstance(sign, ast.Is))
        elif isinstance(sign, (ast.In, ast.NotIn)):
            value = of(left)
            whole = (
                [of(part) for part in right.elts]
                if isinstance(right, (ast.Tuple, ast.List))
                else of(right)
            )
            known = value is not None and whole is not None
            results.append((value in whole) is isinstance(sign, ast.In) if known else None)
        else:
            values = of(left), of(right)
            results.append(None if None in values else COMPARE[type(sign)](*values))
    return results


def kleene(decisive: bool, values: list[bool | None]) -> bool | None:
    """Return the disjunction of conditions if ``decisive`` is True, otherwise the conjunction."""
    if decisive in values:
        return decisive
    return None if None in values else not decisive


def arithmetic(sign: ast.operator, left: float | None, right: float | None) -> float | None:
    if left is None or right is None:
        return None
    if isinstance(sign, (ast.Div, ast.FloorDiv, ast.Mod)) and right == 0:
        return None
    result = ARITHMETIC[type(sign)](left, right)
    return None if math.isnan(result) else result


def plain(value: Value) -> Value:
    """Return a value of a column: a number that is not finite is missing."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
