"""From Python's syntax tree to our tree: what an expression may say, and what it means.

Nothing is evaluated.

A node of a type that is not named here is refused, and so is a name that is neither a score nor a
function.
"""

import ast
import operator
from collections.abc import Callable, Mapping
from typing import cast, get_args

from .function_calls import fold_call, function_call
from .functions import FUNCTIONS, SIZES
from .literals import number_literal, text_literal
from .refusals import refusal
from .refused_comparisons import (
    refuse_compared_fold,
    refuse_is,
    refuse_list_of_one,
    refuse_mixed_chain,
    refuse_none,
)
from .score_call import Constant, Kind, ScoreCall, ScoreType
from .settings import check_settings, settings_of
from .syntax import ExpressionText
from .tree import OVER_ITEMS, Compare, Literal, Membership, Node, Operation, ScoreValue, Span
from .typing_rules import (
    is_operation,
    need_condition,
    need_number,
    need_same_kind,
    needless_comparison_hint,
)
from .unknown_names import OTHER_CONSTANTS, unknown_name_error

_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}
_ARITHMETIC: dict[type[ast.operator], tuple[str, Callable[..., int | float]]] = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("*", operator.mul),
    ast.Div: ("/", operator.truediv),
    ast.FloorDiv: ("//", operator.floordiv),
    ast.Mod: ("%", operator.mod),
}
_CONSTANTS = "a number, a 'text', True or False"


class Parser:
    """Translates one expression. ``scores`` are those that it may name."""

    def __init__(self, source: ExpressionText, scores: Mapping[str, ScoreType]) -> None:
        self._source = source
        self._scores = scores
        self._methods: dict[type[ast.expr], Callable[..., Node]] = {
            ast.BoolOp: self._logic,
            ast.UnaryOp: self._unary,
            ast.BinOp: self._arithmetic,
            ast.Compare: self._compare,
            ast.IfExp: self._choice,
            ast.Call: self._call,
            ast.Name: self._name,
            ast.Constant: self._constant,
        }

    def node(self, tree: ast.expr) -> Node:
        """Return the tree of an expression. Raises ExpressionError."""
        method = self._methods.get(type(tree))
        if method is None:
            raise refusal(self._source, tree)
        return method(tree)

    def _logic(self, tree: ast.BoolOp) -> Node:
        word = "and" if isinstance(tree.op, ast.And) else "or"
        items: list[Node] = []
        for value in tree.values:
            item = self.node(value)
            need_condition(self._source, item, f"`{word}` takes")
            # ``(a and b) and c`` has three items.
            items += item.items if is_operation(item, word) else (item,)
        return Operation(word, tuple(items), "boolean", self._source.span(tree))

    def _unary(self, tree: ast.UnaryOp) -> Node:
        span = self._source.span(tree)
        if isinstance(tree.op, ast.Invert):
            raise refusal(self._source, tree)
        item = self.node(tree.operand)
        if isinstance(tree.op, ast.Not):
            need_condition(self._source, item, "`not` takes")
            return Operation("not", (item,), "boolean", span)
        is_negative = isinstance(tree.op, ast.USub)
        need_number(self._source, item, "-" if is_negative else "+")
        if isinstance(item, Literal):
            value = -item.value if is_negative else item.value  # type: ignore[operator] # it is a number
            return Literal(value, span)
        return Operation("neg", (item,), "number", span) if is_negative else item

    def _arithmetic(self, tree: ast.BinOp) -> Node:
        if type(tree.op) not in _ARITHMETIC:
            raise refusal(self._source, tree)
        sign, compute = _ARITHMETIC[type(tree.op)]
        left = self.node(tree.left)
        right = self.node(tree.right)
        need_number(self._source, left, sign)
        need_number(self._source, right, sign)
        if sign in {"/", "//", "%"} and isinstance(right, Literal) and right.value == 0:
            raise self._source.error(right.span, "a division by zero")
        span = self._source.span(tree)
        if isinstance(left, Literal) and isinstance(right, Literal):
            return number_literal(self._source, compute(left.value, right.value), span)
        return Operation(sign, (left, right), "number", span)

    def _compare(self, tree: ast.Compare) -> Node:
        if len(tree.ops) == 1:
            (sign,) = tree.ops
            if isinstance(sign, (ast.Is, ast.IsNot)):
                return self._is_none(tree, negated=isinstance(sign, ast.IsNot))
            if isinstance(sign, (ast.In, ast.NotIn)):
                return self._in(tree, negated=isinstance(sign, ast.NotIn))
        refuse_mixed_chain(self._source, tree)
        refuse_none(self._source, tree, self._scores)
        refuse_compared_fold(self._source, tree, self.node)

        items = [self.node(operand) for operand in (tree.left, *tree.comparators)]
        signs = [_COMPARISONS[type(comparison)] for comparison in tree.ops]
        for number, sign_text in enumerate(signs):
            left, right = items[number], items[number + 1]
            need_same_kind(self._source, left, right)
            if left.kind == "boolean" and sign_text not in {"==", "!="}:
                detail = f"{self._source.quoted(left.span)} is a condition; it has no order"
                raise self._source.error(
                    left.span, detail, needless_comparison_hint(self._source, left)
                )
        return Compare(tuple(signs), tuple(items), self._source.span(tree))

    def _is_none(self, tree: ast.Compare, *, negated: bool) -> Node:
        refuse_is(self._source, tree)
        span = self._source.span(tree)
        test = Operation("is None", (self.node(tree.left),), "boolean", span)
        return Operation("not", (test,), "boolean", span) if negated else test

    def _in(self, tree: ast.Compare, *, negated: bool) -> Node:
        (right,) = tree.comparators
        left = self.node(tree.left)
        span = self._source.span(tree)
        if isinstance(right, (ast.Tuple, ast.List)):
            test = self._in_list(left, right, span)
        else:
            test = self._in_text(left, right, span)
        return Operation("not", (test,), "boolean", span) if negated else test

    def _in_list(self, left: Node, right: ast.Tuple | ast.List, span: Span) -> Node:
        """Return the test whether a value is one of several constants."""
        if not right.elts:
            detail = "an empty list has no members"
            raise self._source.error(self._source.span(right), detail, "write x in (1, 2, 3)")
        options: list[Literal] = []
        for element in right.elts:
            value = self._read_constant(element, "a list of constants")
            options.append(Literal(value, self._source.span(element)))
        for option in options:
            need_same_kind(self._source, left, option)
        values = dict.fromkeys(option.value for option in options)
        return Membership((left,), tuple(values), span)

    def _in_text(self, left: Node, right: ast.expr, span: Span) -> Node:
        """Return the test whether a text is a part of another."""
        refuse_list_of_one(self._source, right)
        text = self.node(right)
        if text.kind != "text":
            detail = "`in` takes a list of constants or a text"
            raise self._source.error(text.span, detail, "write x in (1, 2, 3)")
        need_same_kind(self._source, left, text)
        return Operation("contains", (text, left), "boolean", span)

    def _choice(self, tree: ast.IfExp) -> Node:
        condition = self.node(tree.test)
        value = self.node(tree.body)
        other = self.node(tree.orelse)
        need_condition(self._source, condition, "`if` takes")
        need_same_kind(self._source, value, other)
        return Operation("if", (condition, value, other), value.kind, self._source.span(tree))

    def _constant(self, tree: ast.Constant) -> Node:
        span = self._source.span(tree)
        value = tree.value
        if isinstance(value, bool):
            return Literal(value, span)
        if isinstance(value, str):
            return text_literal(self._source, value, span)
        if isinstance(value, (int, float)):
            return number_literal(self._source, value, span)
        if value is None:
            hint = "write `x is None` or `x is not None`"
            raise self._source.error(span, "None is no value", hint)
        raise refusal(self._source, tree)

    def _read_constant(self, tree: ast.expr, expected: str) -> Constant:
        """Return a constant. ``expected`` names what it is a part of."""
        span = self._source.span(tree)
        if isinstance(tree, ast.Constant) and tree.value is None:
            hint = "nothing is equal to a missing value: write `x is None or x in (1, 2)`"
            raise self._source.error(span, f"{expected} without None", hint)
        # Of names, only these are constants. Others get this error, not one about unknown scores.
        if not isinstance(tree, ast.Name) or tree.id in SIZES or tree.id in OTHER_CONSTANTS:
            node = self.node(tree)
            if isinstance(node, Literal):
                return node.value
        detail = f"found `{self._source.quoted(span)}`, expected {expected}: {_CONSTANTS}"
        raise self._source.error(span, detail)

    def _name(self, tree: ast.Name) -> Node:
        span = self._source.span(tree)
        if tree.id in self._scores:
            return self._score(tree.id, {}, span)
        if tree.id in SIZES:
            return Literal(SIZES[tree.id], span)
        raise unknown_name_error(self._source, tree.id, span, self._scores)

    def _call(self, tree: ast.Call) -> Node:
        if not isinstance(tree.func, ast.Name):
            raise refusal(self._source, tree.func)
        name = tree.func.id
        if name in FUNCTIONS or name in OVER_ITEMS:
            return self._function(tree, name)
        if name not in self._scores:
            raise unknown_name_error(self._source, name, self._source.span(tree.func), self._scores)
        settings = settings_of(self._source, tree, name, self._scores[name], self._read_constant)
        return self._score(name, settings, self._source.span(tree))

    def _function(self, tree: ast.Call, name: str) -> Node:
        """Return the call of a function."""
        if tree.keywords:
            span = self._source.span(tree.keywords[0])
            raise self._source.error(span, f"{name} has no settings")
        for argument in tree.args:
            if isinstance(argument, (ast.GeneratorExp, ast.Starred)):
                raise refusal(self._source, argument)
        arguments = [self.node(argument) for argument in tree.args]
        span = self._source.span(tree)
        if name in OVER_ITEMS:
            return fold_call(self._source, name, arguments, span)
        return function_call(self._source, name, arguments, span)

    def _score(self, name: str, settings: Mapping[str, object], span: Span) -> ScoreValue:
        """Return the value of a score with settings."""
        score = self._scores[name]
        if score.kind not in get_args(Kind):
            raise TypeError(f"score {name!r} has kind {score.kind!r}")
        if not settings and hasattr(score, "__dataclass_fields__"):
            # Others have been checked where they were read.
            check_settings(self._source, name, score, {}, {}, span)
        call = ScoreCall(name, tuple(sorted(settings.items())))  # type: ignore[arg-type] # settings are constants
        return ScoreValue(call, cast("Kind", score.kind), span)
