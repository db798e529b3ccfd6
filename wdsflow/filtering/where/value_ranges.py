"""Terms of a predicate that no sample, or every sample, can satisfy, by the ranges that scores declare."""

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from wdsflow.filtering.where.language.tokens import WhereError
from wdsflow.filtering.where.language.tree import (
    And,
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
    calls_of,
    children,
    printed,
)

from .evaluate_predicate import SIGNS
from .known_facts import FACTS
from .predicate import Where


class _Range(NamedTuple):
    low: float = -math.inf
    high: float = math.inf


_ANY = _Range()


def check_ranges(where: Where, names: Mapping[str, Any]) -> list[str]:
    """Return a line for each comparison whose result is the same for all values that a score can have.

    Raises WhereError, with the place in the whole predicate, if a term can never hold: nothing would be kept.
    """
    known = {**FACTS, **names}
    told: list[str] = []
    for term in where.terms:
        fixed = dict(_fixed(term.node, known))
        if _holds(term.node, known) is False and fixed:
            worst = next((node for node, holds in fixed.items() if not holds), next(iter(fixed)))
            detail = f"{printed(worst)} {'always' if fixed[worst] else 'never'} holds: {_about(worst, known)}"
            raise WhereError(where.text, *term.place, detail, _hint(worst, known))
        told += [
            f"{printed(node)} {'always' if holds else 'never'} holds: {_about(node, known)}"
            for node, holds in fixed.items()
        ]
    return told


def _fixed(node: Node, known: Mapping[str, Any]) -> Iterator[tuple[Node, bool]]:
    """Yield the comparisons of scores that have one result, and that result."""
    if isinstance(node, (Compare, Membership)):
        holds = _holds(node, known)
        if holds is not None and any(True for _ in calls_of(node)):
            yield node, holds
        return
    for child in children(node) if not isinstance(node, IsNull) else ():  # a test of null is not one of values
        yield from _fixed(child, known)


def _holds(node: Node, known: Mapping[str, Any]) -> bool | None:
    """Return the only result that a condition can have, if it is known; None otherwise."""
    match node:
        case Compare(signs, operands):
            ranges = [_range(operand, known) for operand in operands]
            return _all([_link(*link) for link in zip(signs, ranges, ranges[1:], strict=False)])
        case Membership(body, options) if body.kind == "number":
            low, high = _range(body, known)
            return None if any(low <= option <= high for option in options if not isinstance(option, str)) else False
        case Not(body):
            found = _holds(body, known)
            return None if found is None else not found
        case And(items):
            return _all([_holds(item, known) for item in items])
        case Or(items):
            found = _all([None if (one := _holds(item, known)) is None else not one for item in items])
            return None if found is None else not found
        case Quantified(_, body):
            return _holds(body, known)
    return None


def _all(results: list[bool | None]) -> bool | None:
    if False in results:
        return False
    return True if None not in results else None


def _link(sign: str, left: _Range, right: _Range) -> bool | None:
    """Return the only result of a comparison of any two values in two ranges."""
    if sign in {"==", "!="}:
        apart = left.high < right.low or right.high < left.low
        return None if not apart else sign == "!="
    ends = (left.high, right.low) if sign in {"<", "<="} else (left.low, right.high)
    other = (left.low, right.high) if sign in {"<", "<="} else (left.high, right.low)
    if SIGNS[sign](*ends):
        return True
    return None if SIGNS[sign](*other) else False


def _range(node: Node, known: Mapping[str, Any]) -> _Range:
    match node:
        case Literal(value) if not isinstance(value, str):
            return _Range(float(value), float(value))
        case NameRef(call, "number"):
            ends = (getattr(known.get(call.name), end, None) for end in ("low", "high"))
            return _Range(*(default if end is None else end for end, default in zip(ends, _ANY, strict=True)))
        case Reduce(_, body):
            return _range(body, known)
        case Negate(body):
            low, high = _range(body, known)
            return _Range(-high, -low)
        case Arithmetic(sign, left, right) if sign in {"+", "-", "*", "/"}:
            return _combined(sign, _range(left, known), _range(right, known))
    return _ANY


def _combined(sign: str, left: _Range, right: _Range) -> _Range:
    if sign == "/" and right.low <= 0 <= right.high:
        return _ANY
    ends = [SIGNS[sign](one, other) for one in left for other in right]
    return _ANY if any(map(math.isnan, ends)) else _Range(min(ends), max(ends))


def _about(node: Node, known: Mapping[str, Any]) -> str:
    """Return the ranges of the scores of a comparison."""
    return ", ".join(f"{call} is {range_text(known[call.name])}" for call in dict.fromkeys(calls_of(node)))


def range_text(score: Any) -> str:
    """Return the range of a score in words."""
    if score.low is None or score.high is None:
        end, word = (score.high, "at most") if score.low is None else (score.low, "at least")
        return "any number" if end is None else f"{word} {end:g}"
    return f"from {score.low:g} to {score.high:g}"


def _hint(node: Node, known: Mapping[str, Any]) -> str:
    """Return the comparison with a share where a percentage was written."""
    match node:
        case Compare((sign,), (NameRef(call) as name, Literal(value))):
            score = known[call.name]
            if score.high == 1 and not isinstance(value, str) and 1 < value <= 100:
                return f"write {printed(Compare((sign,), (name, Literal(value / 100))))}"
    return "scores and their ranges: wdsflow scores"
