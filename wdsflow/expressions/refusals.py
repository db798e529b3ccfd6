"""What Python can say and expressions cannot, and what to write instead."""

import ast
import re

from .errors import ExpressionError
from .functions import FUNCTIONS, OTHER_NAMES
from .syntax import ExpressionText
from .tree import Span

_SIGNS: dict[type[ast.AST], tuple[str, str]] = {
    ast.BitAnd: ("&", "write and"),
    ast.BitOr: ("|", "write or"),
    ast.BitXor: ("^", "powers are not supported: multiply instead, x * x"),
    ast.Pow: ("**", "powers are not supported: multiply instead, x * x"),
    ast.MatMult: ("@", "write * for a product"),
    ast.LShift: ("<<", "write < or <="),
    ast.RShift: (">>", "write > or >="),
    ast.Invert: ("~", "write not, or matches(caption, r'regular expression')"),
}
_OTHERS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Subscript: (
        "square brackets are not supported",
        "write any(...), min(...) or max(...) for one of several items",
    ),
    ast.List: ("square brackets have no meaning here", "write a list after `in`: x in (1, 2, 3)"),
    ast.Set: ("braces are not supported", "write a list as (1, 2, 3)"),
    ast.Dict: ("braces are not supported", "write a list as (1, 2, 3)"),
    ast.Tuple: (
        "a comma has no meaning here",
        "write numbers without separators (1000 or 1_000); join conditions with `and`",
    ),
    ast.JoinedStr: ("a text with f before it is not supported", "write 'text'"),
    ast.NamedExpr: (":= is not supported", "write the value where it is needed"),
    ast.Lambda: ("functions cannot be defined here", "a custom score can: wdsflow scores"),
    ast.GeneratorExp: ("loops are not supported", "write any(width > 200) for any of the images"),
    ast.ListComp: ("loops are not supported", "write any(width > 200) for any of the images"),
    ast.SetComp: ("loops are not supported", "write any(width > 200) for any of the images"),
    ast.DictComp: ("loops are not supported", "write any(width > 200) for any of the images"),
    ast.Starred: ("* has no meaning here", "write the values one by one"),
    ast.Await: ("await is not supported", ""),
    ast.Yield: ("yield is not supported", ""),
    ast.YieldFrom: ("yield is not supported", ""),
    ast.Call: ("only scores and functions can be called by name", "all scores: wdsflow scores"),
}


def refusal(source: ExpressionText, tree: ast.expr) -> ExpressionError:
    """Return the error about a part of Python's syntax that expressions do not have."""
    span = source.span(tree)
    if isinstance(tree, ast.Attribute):
        return _attribute(source, tree)
    if isinstance(tree, ast.BinOp):
        sign, hint = _SIGNS.get(type(tree.op), ("this sign", ""))
        return source.error(
            _between(source, tree.left, tree.right), f"{sign} is not supported", hint
        )
    if isinstance(tree, ast.UnaryOp):
        sign, hint = _SIGNS[type(tree.op)]
        return source.error((span[0], span[0] + 1), f"{sign} is not supported", hint)
    if isinstance(tree, ast.Constant):
        return source.error(
            span, f"a constant of type {type(tree.value).__name__}", "write a number or a 'text'"
        )
    if isinstance(tree, ast.Tuple) and not tree.elts:
        return source.error(
            span, "nothing is in parentheses", "write for example: width >= 200; or: True"
        )
    if isinstance(tree, ast.Tuple) and len(tree.elts) > 1:
        span = _between(source, *tree.elts[:2])
    detail, hint = _OTHERS.get(
        type(tree), (f"{type(tree).__name__} of Python is not supported", "")
    )
    return source.error(span, detail, hint)


def _attribute(source: ExpressionText, tree: ast.Attribute) -> ExpressionError:
    start = source.span(tree.value)[1]
    name = OTHER_NAMES.get(tree.attr, tree.attr)
    hint = "a score is one name, such as width"
    if name in FUNCTIONS:
        quoted = source.quoted(source.span(tree.value))
        more = ", ..." if len(FUNCTIONS[name].takes) > 1 else ""
        hint = f"write {name}({quoted}{more})"
    return source.error((start, source.span(tree)[1]), "a dot has no meaning here", hint)


def _between(source: ExpressionText, left: ast.expr, right: ast.expr) -> Span:
    """Return where the sign between two operands is: parentheses may be next to it."""
    start, end = source.span(left)[1], source.span(right)[0]
    sign = re.search(r"[^\s()]+", source.text[start:end])
    return (start + sign.start(), start + sign.end()) if sign else (start, end)
