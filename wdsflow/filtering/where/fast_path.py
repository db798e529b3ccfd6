"""The same evaluation for ordinary samples: every score is known, and has a single value.

Most samples are like this, and this path is several times faster. All others use the full evaluation.
"""

import operator
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from wdsflow.filtering.where.language.functions import FUNCTIONS
from wdsflow.filtering.where.language.tree import (
    And,
    Apply,
    Arithmetic,
    Compare,
    IsNull,
    Literal,
    Membership,
    NameRef,
    Negate,
    Node,
    Not,
    Or,
    Quantified,
    Reduce,
)
from wdsflow.filtering.where.language.values import Call

from .evaluate_predicate import SIGNS, Lookup

Fast: TypeAlias = Callable[[Lookup], Any]
_TURNED = {
    "<": operator.gt,
    "<=": operator.ge,
    ">": operator.lt,
    ">=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}


class NotPlain(ArithmeticError):
    """A result that is not a number; a division by zero raises ZeroDivisionError, a missing score KeyError."""


def fast_runner(node: Node) -> Fast:
    """Return a function from plain values to True or False.

    It raises KeyError or ArithmeticError if the full evaluation is needed.
    """
    match node:
        case Literal(value):
            return lambda values: value
        case NameRef(call):
            return lambda values: values[call]
        case Quantified(_, body) | Reduce(_, body):
            return fast_runner(body)
        case Negate(body):
            return _one(operator.neg, body)
        case Not(body):
            return _one(operator.not_, body)
        case Membership(body, options):
            return _one(frozenset(options).__contains__, body)
        case IsNull(body):
            return _one(lambda value: False, body)
        case Arithmetic(sign, left, right):
            return _arithmetic(SIGNS[sign], fast_runner(left), fast_runner(right))
        case Apply(function, arguments):
            return _apply(FUNCTIONS[function].run, [fast_runner(argument) for argument in arguments])
        case Compare((sign,), (NameRef(call), Literal(value))):
            test = SIGNS[sign]
            return lambda values: test(values[call], value)
        case Compare(signs, operands):
            return _chain([SIGNS[sign] for sign in signs], [fast_runner(operand) for operand in operands])
        case And(items) | Or(items):
            return _junction([fast_runner(item) for item in items], isinstance(node, Or))


def fast_test(node: Node, call: Call) -> Callable[[Any], Any]:
    """Return the same function for a tree with one score, from its value. It raises the same errors."""
    match node:
        case Compare((sign,), (NameRef(), Literal(value))):
            return partial(_TURNED[sign], value)
        case Compare((sign,), (Literal(value), NameRef())):
            return partial(SIGNS[sign], value)
    run = fast_runner(node)
    return lambda value: run({call: value})


def _one(function: Callable[[Any], Any], body: Node) -> Fast:
    inner = fast_runner(body)
    return lambda values: function(inner(values))


def _apply(function: Callable[..., Any], arguments: list[Fast]) -> Fast:
    return lambda values: function(*[argument(values) for argument in arguments])


def _arithmetic(function: Callable[[Any, Any], Any], left: Fast, right: Fast) -> Fast:
    def run(values: Lookup) -> Any:
        made = function(left(values), right(values))
        if made != made:  # noqa: PLR0124 (the test for NaN)
            raise NotPlain
        return made

    return run


def _chain(tests: list[Callable[[Any, Any], bool]], operands: list[Fast]) -> Fast:
    pairs = list(zip(tests, operands[1:], strict=True))

    def run(values: Lookup) -> bool:
        left = operands[0](values)
        for test, operand in pairs:
            right = operand(values)
            if not test(left, right):
                return False
            left = right
        return True

    return run


def _junction(items: list[Fast], decisive: bool) -> Fast:
    def run(values: Lookup) -> bool:
        for item in items:
            if bool(item(values)) is decisive:
                return decisive
        return not decisive

    return run
