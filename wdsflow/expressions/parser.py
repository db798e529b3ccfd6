"""From Python's syntax tree to our tree: what an expression may say, and what it means. Nothing is evaluated.

A node of a type that is not named here is refused, and so is a name that is neither a score nor a
function.
"""

import ast
import operator
from collections.abc import Callable, Mapping
from typing import cast, get_args

from wdsflow.text.words import how_many

from .errors import ExpressionError, nearest
from .foreign_syntax import PATTERN_HINT, PATTERN_WORDS
from .functions import FUNCTIONS, OTHER_NAMES, SIZES
from .literals import number_literal, text_literal
from .patterns import check_pattern
from .refusals import refusal
from .score_call import Constant, Kind, ScoreCall, ScoreType
from .settings import check_settings, settings_of
from .syntax import ExpressionText
from .tree import OVER_ITEMS, Compare, Literal, Membership, Node, Operation, ScoreValue, Span
from .typing_rules import (
    is_operation,
    need_condition,
    need_kind,
    need_number,
    need_same_kind,
    unfinished_fold,
    without_comparison,
)

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
# What SQL and other languages call the constants of Python.
_OTHER_CONSTANTS = {"true": "True", "false": "False", "null": "None", "none": "None", "nan": "None"}


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
        left, right = self.node(tree.left), self.node(tree.right)
        need_number(self._source, left, sign)
        need_number(self._source, right, sign)
        if sign in {"/", "//", "%"} and isinstance(right, Literal) and right.value == 0:
            raise self._source.error(right.span, "a division by zero")
        span = self._source.span(tree)
        if isinstance(left, Literal) and isinstance(right, Literal):
            return number_literal(self._source, compute(left.value, right.value), span)
        return Operation(sign, (left, right), "number", span)

    def _compare(self, tree: ast.Compare) -> Node:
        if len(tree.ops) == 1 and isinstance(tree.ops[0], (ast.Is, ast.IsNot)):
            return self._is_none(tree)
        if len(tree.ops) == 1 and isinstance(tree.ops[0], (ast.In, ast.NotIn)):
            return self._in(tree)
        operands = [tree.left, *tree.comparators]
        for comparison, operand in zip(tree.ops, operands[1:], strict=True):
            if type(comparison) not in _COMPARISONS:
                hint = "put the comparison in parentheses, or join two by `and`"
                raise self._source.error(
                    self._source.span(operand), "`in` and `is` have no part in a chain", hint
                )
        for operand in operands:
            self._refuse_none(operand, tree)
        self._refuse_compared_fold(tree)
        items = [self.node(operand) for operand in operands]
        signs = [_COMPARISONS[type(comparison)] for comparison in tree.ops]
        for sign, left, right in zip(signs, items, items[1:], strict=False):
            need_same_kind(self._source, left, right)
            if left.kind == "boolean" and sign not in {"==", "!="}:
                detail = f"{self._source.quoted(left.span)} is a condition; it has no order"
                raise self._source.error(left.span, detail, without_comparison(self._source, left))
        return Compare(tuple(signs), tuple(items), self._source.span(tree))

    def _refuse_none(self, operand: ast.expr, tree: ast.Compare) -> None:
        """Refuse ``x == None``: nothing is equal to a value that is missing."""
        if not self._means_none(operand):
            return
        other = tree.comparators[0] if operand is tree.left else tree.left
        quoted = self._source.quoted(self._source.span(other))
        hint = f"write `{quoted} is None` or `{quoted} is not None`"
        span = self._source.span(operand)
        raise self._source.error(span, "nothing is equal to a missing value", hint)

    def _means_none(self, operand: ast.expr) -> bool:
        """Return whether an operand is None, or what other languages call it, such as null."""
        if isinstance(operand, ast.Constant):
            return operand.value is None
        if not isinstance(operand, ast.Name) or operand.id in self._scores:
            return False
        return _OTHER_CONSTANTS.get(operand.id.lower()) == "None"

    def _refuse_compared_fold(self, tree: ast.Compare) -> None:
        """Refuse ``any(width) > 3`` with the hint that the comparison belongs inside."""
        fold = tree.left
        if len(tree.ops) > 1 or not isinstance(fold, ast.Call):
            return
        if not isinstance(fold.func, ast.Name) or fold.func.id not in {"any", "all"}:
            return
        if len(fold.args) != 1 or self.node(fold.args[0]).kind == "boolean":
            return
        name = fold.func.id
        text = self._source.text
        start, end = self._source.span(fold.args[0])
        _, end_of_fold = self._source.span(fold)
        _, end_of_tree = self._source.span(tree)
        comparison = text[end_of_fold:end_of_tree].strip()
        hint = f"write {name}({text[start:end]} {comparison})"
        detail = f"{name}(...) needs a condition or a comparison"
        raise self._source.error(self._source.span(fold), detail, hint)

    def _is_none(self, tree: ast.Compare) -> Node:
        (right,) = tree.comparators
        if not (isinstance(right, ast.Constant) and right.value is None):
            quoted = self._source.quoted(self._source.span(tree.left))
            hint = f"write `{quoted} is None` or `{quoted} is not None`; compare values with =="
            raise self._source.error(self._source.span(right), "`is` only tests for None", hint)
        span = self._source.span(tree)
        test = Operation("is None", (self.node(tree.left),), "boolean", span)
        if isinstance(tree.ops[0], ast.Is):
            return test
        return Operation("not", (test,), "boolean", span)

    def _in(self, tree: ast.Compare) -> Node:
        (right,) = tree.comparators
        left = self.node(tree.left)
        span = self._source.span(tree)
        test: Node
        if isinstance(right, (ast.Tuple, ast.List)):
            options = self._options(right)
            for option in options:
                need_same_kind(self._source, left, option)
            values = dict.fromkeys(option.value for option in options)
            test = Membership((left,), tuple(values), span)
        else:
            self._refuse_list_of_one(right)
            text = self.node(right)
            if text.kind != "text":
                raise self._source.error(
                    text.span, "`in` takes a list of constants or a text", "write x in (1, 2, 3)"
                )
            need_same_kind(self._source, left, text)
            test = Operation("contains", (text, left), "boolean", span)
        if isinstance(tree.ops[0], ast.In):
            return test
        return Operation("not", (test,), "boolean", span)

    def _refuse_list_of_one(self, right: ast.expr) -> None:
        """Refuse ``language in ('en')``: for Python this is a test for a part of a text, and means no list."""
        if isinstance(right, ast.Constant):
            start, end = self._source.span(right)
            before, after = self._source.text[:start].rstrip(), self._source.text[end:].lstrip()
            if before.endswith("(") and after.startswith(")"):
                quoted = self._source.quoted((start, end))
                raise self._source.error(
                    (start, end), "a list of one needs a comma", f"write ({quoted},)"
                )

    def _options(self, tree: ast.Tuple | ast.List) -> list[Literal]:
        if not tree.elts:
            raise self._source.error(
                self._source.span(tree), "an empty list has no members", "write x in (1, 2, 3)"
            )
        options = []
        for element in tree.elts:
            value = self._read_constant(element, "a list of constants")
            options.append(Literal(value, self._source.span(element)))
        return options

    def _read_constant(self, tree: ast.expr, expected: str) -> Constant:
        """Return a constant. ``expected`` names what it is a part of."""
        span = self._source.span(tree)
        if isinstance(tree, ast.Constant) and tree.value is None:
            hint = "nothing is equal to a missing value: write `x is None or x in (1, 2)`"
            raise self._source.error(span, f"{expected} without None", hint)
        # Of names, only these are constants. Others get this error, not one about unknown scores.
        if not isinstance(tree, ast.Name) or tree.id in SIZES or tree.id in _OTHER_CONSTANTS:
            node = self.node(tree)
            if isinstance(node, Literal):
                return node.value
        detail = f"found `{self._source.quoted(span)}`, expected {expected}: {_CONSTANTS}"
        raise self._source.error(span, detail)

    def _choice(self, tree: ast.IfExp) -> Node:
        condition, value, other = self.node(tree.test), self.node(tree.body), self.node(tree.orelse)
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
            raise self._source.error(
                span, "None is no value", "write `x is None` or `x is not None`"
            )
        raise refusal(self._source, tree)

    def _name(self, tree: ast.Name) -> Node:
        span = self._source.span(tree)
        if tree.id in self._scores:
            return self._score(tree.id, {}, span)
        if tree.id in SIZES:
            return Literal(SIZES[tree.id], span)
        raise self._unknown_name(tree.id, span)

    def _score(self, name: str, settings: Mapping[str, object], span: Span) -> ScoreValue:
        score = self._scores[name]
        if score.kind not in get_args(Kind):
            raise TypeError(f"score {name!r} has kind {score.kind!r}")
        if not settings and hasattr(score, "__dataclass_fields__"):
            check_settings(self._source, name, score, {}, {}, span)
        call = ScoreCall(name, tuple(sorted(settings.items())))  # type: ignore[arg-type] # settings are constants
        return ScoreValue(call, cast("Kind", score.kind), span)

    def _call(self, tree: ast.Call) -> Node:
        if not isinstance(tree.func, ast.Name):
            raise refusal(self._source, tree.func)
        name, span = tree.func.id, self._source.span(tree)
        if name in FUNCTIONS or name in OVER_ITEMS:
            if tree.keywords:
                raise self._source.error(
                    self._source.span(tree.keywords[0]), f"{name} has no settings"
                )
            for argument in tree.args:
                if isinstance(argument, (ast.GeneratorExp, ast.Starred)):
                    raise refusal(self._source, argument)
            arguments = [self.node(argument) for argument in tree.args]
            if name in OVER_ITEMS:
                return self._over(name, arguments, span)
            return self._apply(name, arguments, span)
        if name not in self._scores:
            raise self._unknown_name(name, self._source.span(tree.func))
        settings = settings_of(self._source, tree, name, self._scores[name], self._read_constant)
        return self._score(name, settings, span)

    def _apply(self, name: str, arguments: list[Node], span: Span) -> Node:
        """Return a function of values."""
        function = FUNCTIONS[name]
        examples = ("caption", "'text'") if function.takes[0] == "text" else ("width",)
        usage = f"write {name}({', '.join(examples[: len(function.takes)])})"
        if len(arguments) != len(function.takes):
            count = how_many(len(function.takes), "value")
            raise self._source.error(span, f"{name} takes {count}, not {len(arguments)}", usage)
        for kind, argument in zip(function.takes, arguments, strict=True):
            need_kind(self._source, argument, kind, name, usage)
        if name == "matches":
            self._check_pattern(arguments[1])
        return Operation(name, tuple(arguments), function.kind, span)

    def _check_pattern(self, node: Node) -> None:
        if not isinstance(node, Literal) or not isinstance(node.value, str):
            detail = "the regular expression of matches must be a constant"
            raise self._source.error(node.span, detail, "write matches(caption, r'...')")
        problem = check_pattern(node.value)
        if problem:
            hint = "the syntax is that of RE2, without look-around and back-references"
            raise self._source.error(node.span, f"not a regular expression: {problem}", hint)

    def _over(self, how: str, arguments: list[Node], span: Span) -> Node:
        """Return any, all, min, max or mean over the images or captions of a sample."""
        if len(arguments) != 1:
            hint = "it combines the images or captions of one sample; join conditions with `and` or `or`"
            raise self._source.error(span, f"{how} takes 1 value, not {len(arguments)}", hint)
        (item,) = arguments
        if how in {"min", "max", "mean"}:
            need_number(self._source, item, f"{how}()")
            return Operation(how, (item,), "number", span)
        if item.kind != "boolean":
            raise unfinished_fold(self._source, how, item)
        return Operation(how, (item,), "boolean", span)

    def _unknown_name(self, name: str, span: Span) -> ExpressionError:
        """Return the error about a name that is not a score."""
        constant = _OTHER_CONSTANTS.get(name.lower())
        if constant is not None:
            hint = f"write {constant}"
            if constant == "None":
                hint = "write `x is None` or `x is not None`"
            return self._source.error(span, f"{name} is not Python", hint)
        functions = (*FUNCTIONS, *OVER_ITEMS)
        close = nearest(name, self._scores) or nearest(name, functions)
        if name in OTHER_NAMES:
            hint = f"write {OTHER_NAMES[name]}(...)"
        elif name.lower() in {"and", "or", "not", "in", "is", "if", "else"}:
            hint = f"write {name.lower()} in lower case"
        elif close in functions:
            hint = f"{close} is a function: write {close}(...)"
        elif name.lower() in PATTERN_WORDS:
            hint = PATTERN_HINT
        else:
            hint = f"did you mean {close}?" if close else "all scores: wdsflow scores"
        return self._source.error(span, f"no score is called {name[:60]!r}", hint)
