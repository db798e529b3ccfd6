"""The parts of a predicate on the page of a run.

What sliders and checkboxes can express, and the other terms.
"""

from dataclasses import dataclass, field, replace
from itertools import pairwise

from wdsflow.expressions.expression import Term
from wdsflow.expressions.score_call import Constant, ScoreCall
from wdsflow.expressions.tree import Compare, Literal, Membership, Node, Operation, ScoreValue
from wdsflow.filtering.predicates.catalog import parse
from wdsflow.stages.scores.score_catalog import all_scores

# A score, and the values that a condition allows it.
Allowed = tuple[ScoreCall, tuple[Constant, ...]]
# A comparison with its operands exchanged.
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class Limit:
    """An end of a slider: ``strict`` if the end itself is outside."""

    value: float
    strict: bool


@dataclass(frozen=True, slots=True)
class PredicateParts:
    """Thresholds of single scores, the values of checkboxes, and the other terms."""

    low: dict[ScoreCall, Limit]
    high: dict[ScoreCall, Limit]
    rest: tuple[Term, ...]
    # The values that scores may have.
    ticked: dict[Term, Allowed] = field(default_factory=dict)
    # They compare samples that all others keep, so that other thresholds change their values.
    compared: tuple[Term, ...] = ()


def parts_of(where: str) -> PredicateParts:
    """Return the thresholds of a predicate, and its other terms.

    A threshold is a term such as ``0.28 < clip_similarity``.
    """
    parts = PredicateParts({}, {}, ())
    terms = parse(where, all_scores()).terms if where.strip() else ()
    rest: list[Term] = []
    ticked: dict[Term, Allowed] = {}
    compared: list[Term] = []
    for term in terms:
        if any(map(compares_kept, term.scores)):
            compared.append(term)
            continue
        allowed = _allowed(term.node)
        with_boxes = {call for call, _ in ticked.values()}
        # The boxes of a score express one of its terms.
        if allowed is not None and allowed[0] not in with_boxes:
            ticked[term] = allowed
        elif term not in ticked and not _add_limits(term, parts):
            rest.append(term)
    return replace(parts, rest=tuple(rest), ticked=ticked, compared=tuple(compared))


def _allowed(node: Node) -> Allowed | None:
    """Return a score and the values that a condition allows it.

    None if checkboxes cannot express that.
    """
    match node:
        case ScoreValue(call, "boolean"):
            return call, (True,)
        case Operation("not", (ScoreValue(call, "boolean"),)):
            return call, (False,)
        case Compare(("==",), (ScoreValue(call, "boolean" | "text"), Literal(value))):
            return call, (value,)
        case Compare(("==",), (Literal(value), ScoreValue(call, "boolean" | "text"))):
            return call, (value,)
        case Compare(("!=",), (ScoreValue(call, "boolean"), Literal(bool(value)))):
            return call, (not value,)
        case Membership((ScoreValue(call, "boolean" | "text"),), options):
            return call, options
    return None


def compares_kept(call: ScoreCall) -> bool:
    """Return whether a score compares only the samples that all other terms keep."""
    return ("among", "kept") in call.settings


def _add_limits(term: Term, parts: PredicateParts) -> bool:
    """Add the limits of a term.

    Returns False if the term is not a comparison of one score with numbers, or if a limit is
    repeated.
    """
    node = term.node
    if not isinstance(node, Compare):
        return False
    low: dict[ScoreCall, Limit] = {}
    high: dict[ScoreCall, Limit] = {}
    # A chain such as 1 < blur < 5 compares neighbours.
    for (left, right), sign in zip(pairwise(node.items), node.signs, strict=True):
        compared = _score_and_bound(left, sign, right)
        if compared is None:
            return False
        call, direction, bound = compared
        added, existing = (low, parts.low) if direction.startswith(">") else (high, parts.high)
        if call in added or call in existing:
            return False
        added[call] = Limit(bound, strict=direction in ("<", ">"))
    parts.low.update(low)
    parts.high.update(high)
    return True


def _score_and_bound(left: Node, sign: str, right: Node) -> tuple[ScoreCall, str, float] | None:
    """Return a score, a sign and a number; None if it is another comparison."""
    if isinstance(left, Literal) and isinstance(right, ScoreValue):
        left, right = right, left
        sign = _MIRRORED.get(sign, sign)
    if not isinstance(left, ScoreValue) or left.kind != "number":
        return None
    if not isinstance(right, Literal) or sign not in _MIRRORED:
        return None
    return left.call, sign, float(right.value)
