"""Comparisons that have the same result for all values that a score can have.

They are mistakes, mostly a percentage in place of a share.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

from .errors import ExpressionError
from .expression import Expression
from .score_call import ScoreFacts
from .tree import (
    ARITHMETIC,
    Compare,
    Literal,
    Membership,
    Node,
    Operation,
    ScoreValue,
    calls_of,
    printed,
)


class _Range(NamedTuple):
    low: float = -math.inf
    high: float = math.inf


_ANY_NUMBER = _Range()


def check_ranges(expression: Expression) -> list[str]:
    """Return a line for each comparison that always or never holds.

    This is determined by the ranges that scores declare.

    Raises ExpressionError if a whole term can never hold: nothing would be kept.
    """
    ranges = _Ranges(expression)
    lines: list[str] = []
    for term in expression.terms:
        fixed = dict(ranges.fixed_comparisons(term.node))
        if ranges.only_result(term.node) is False and fixed:
            node = next((node for node, holds in fixed.items() if not holds), next(iter(fixed)))
            raise ExpressionError(
                expression.text, *term.span, ranges.in_words(node, fixed[node]), ranges.hint(node)
            )
        lines += [ranges.in_words(node, holds) for node, holds in fixed.items()]
    return lines


def range_in_words(score: ScoreFacts) -> str:
    """Return the range of a score in words; "" for a text, or if any number is possible."""
    if score.low is not None and score.high is not None:
        return f"from {score.low:g} to {score.high:g}"
    if score.low is not None:
        return f"at least {score.low:g}"
    return "" if score.high is None else f"at most {score.high:g}"


class _Ranges:
    """The possible results of the nodes of an expression."""

    def __init__(self, expression: Expression) -> None:
        self._facts = expression.facts

    def fixed_comparisons(self, node: Node) -> Iterator[tuple[Node, bool]]:
        """Yield the comparisons of scores that have one result, and that result."""
        if isinstance(node, (Compare, Membership)):
            holds = self.only_result(node)
            if holds is not None and calls_of(node):
                yield node, holds
            return
        if isinstance(node, Operation) and node.name == "is None":
            return
        for item in node.items:
            yield from self.fixed_comparisons(item)

    def only_result(self, node: Node) -> bool | None:
        """Return the only result that a condition can have if it is known; None otherwise."""
        match node:
            case Compare(signs, items):
                ranges = [self._range(item) for item in items]
                links = zip(signs, ranges, ranges[1:], strict=False)
                return _conjunction([_comparison(sign, left, right) for sign, left, right in links])
            case Membership((item,), options) if item.kind == "number":
                low, high = self._range(item)
                possible = [
                    low <= option <= high for option in options if not isinstance(option, str)
                ]
                return None if any(possible) else False
            case Operation("and" | "all" | "any", items):
                return _conjunction([self.only_result(item) for item in items])
            case Operation("not", (item,)):
                return _opposite(self.only_result(item))
            case Operation("or", items):
                return _opposite(
                    _conjunction([_opposite(self.only_result(item)) for item in items])
                )
        return None

    def _range(self, node: Node) -> _Range:
        match node:
            case Literal(value) if not isinstance(value, str):
                return _Range(float(value), float(value))
            case ScoreValue(call, "number"):
                return self._declared(call.name)
            case Operation("min" | "max" | "mean", (item,)):
                return self._range(item)
            case Operation("neg", (item,)):
                low, high = self._range(item)
                return _Range(-high, -low)
            case Operation("if", (_, value, other)):
                one, two = self._range(value), self._range(other)
                return _Range(min(one.low, two.low), max(one.high, two.high))
            case Operation(sign, (left, right)) if sign in ARITHMETIC:
                return _arithmetic(sign, self._range(left), self._range(right))
        return _ANY_NUMBER

    def _declared(self, name: str) -> _Range:
        score = self._facts[name]
        low = -math.inf if score.low is None else score.low
        high = math.inf if score.high is None else score.high
        return _Range(low, high)

    def in_words(self, node: Node, holds: bool) -> str:
        """Return that a comparison always or never holds, and the ranges of its scores."""
        words = {call: range_in_words(self._facts[call.name]) for call in calls_of(node)}
        ranges = ", ".join(f"{call} is {text}" for call, text in words.items() if text)
        statement = f"{printed(node)} {'always' if holds else 'never'} holds"
        return f"{statement}: {ranges}" if ranges else statement

    def hint(self, node: Node) -> str:
        """Return the comparison with a share where a percentage was written."""
        match node:
            case Compare((_,), (ScoreValue(call), Literal(value))) if not isinstance(value, str):
                if self._facts[call.name].high == 1 and 1 < value <= 100:
                    share = Compare(node.signs, (node.items[0], Literal(value / 100)))
                    return f"write {printed(share)}"
        return "scores and their ranges: wdsflow scores"


def _opposite(result: bool | None) -> bool | None:
    return None if result is None else not result


def _conjunction(results: list[bool | None]) -> bool | None:
    if False in results:
        return False
    return None if None in results else True


def _comparison(sign: str, left: _Range, right: _Range) -> bool | None:
    """Return the only result of a comparison of any two numbers in two ranges."""
    if sign in {"==", "!="}:
        apart = left.high < right.low or right.high < left.low
        return sign == "!=" if apart else None
    if sign in {">", ">="}:
        left, right = right, left
    if sign in {"<", ">"}:
        always, never = left.high < right.low, left.low >= right.high
    else:
        always, never = left.high <= right.low, left.low > right.high
    if always:
        return True
    return False if never else None


def _arithmetic(sign: str, left: _Range, right: _Range) -> _Range:
    if sign in {"//", "%"} or (sign == "/" and right.low <= 0 <= right.high):
        return _ANY_NUMBER
    compute = {"+": float.__add__, "-": float.__sub__, "*": float.__mul__, "/": float.__truediv__}[
        sign
    ]
    ends = [compute(float(one), float(other)) for one in left for other in right]
    return _ANY_NUMBER if any(map(math.isnan, ends)) else _Range(min(ends), max(ends))
