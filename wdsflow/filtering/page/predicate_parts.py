"""The parts of a predicate on the page of a run: what sliders and checkboxes can express, and the other terms."""

from dataclasses import dataclass, field, replace

from wdsflow.expressions.expression import Term
from wdsflow.expressions.score_call import Constant, ScoreCall
from wdsflow.expressions.tree import Compare, Literal, Membership, Node, Operation, ScoreValue
from wdsflow.filtering.predicates.catalog import parse
from wdsflow.stages.scores.score_catalog import all_scores

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
    ticked: dict[Term, tuple[ScoreCall, tuple[Constant, ...]]] = field(default_factory=dict)
    # They compare samples that all others keep, so that other thresholds change their values.
    compared: tuple[Term, ...] = ()


def parts_of(where: str) -> PredicateParts:
    """Return the thresholds of a predicate, such as ``0.28 < clip_similarity``, and its other terms."""
    start = PredicateParts({}, {}, ())
    terms = parse(where, all_scores()).terms if where.strip() else ()
    compared = tuple(term for term in terms if any(map(compares_kept, term.scores)))
    ticked: dict[Term, tuple[ScoreCall, tuple[Constant, ...]]] = {}
    for term in terms:
        allowed = None if term in compared else _allowed(term.node)
        if allowed is not None and all(allowed[0] != call for call, _ in ticked.values()):
            ticked[term] = allowed
    rest = tuple(
        term
        for term in terms
        if term not in compared and term not in ticked and not _threshold(term, start)
    )
    return replace(start, rest=rest, ticked=ticked, compared=compared)


def _allowed(node: Node) -> tuple[ScoreCall, tuple[Constant, ...]] | None:
    """Return a score and the values that a condition allows it; None if checkboxes cannot express that."""
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


def _threshold(term: Term, start: PredicateParts) -> bool:
    """Add the limits of a term; False if it is not a comparison of one score with numbers, or if one is repeated."""
    node = term.node
    if not isinstance(node, Compare):
        return False
    limits: list[tuple[dict[ScoreCall, Limit], ScoreCall, Limit]] = []
    for number, sign in enumerate(node.signs):
        score, bound = node.items[number], node.items[number + 1]
        if isinstance(score, Literal) and isinstance(bound, ScoreValue):
            score, bound = bound, score
            sign = _MIRRORED.get(sign, sign)  # noqa: PLW2901
        if not isinstance(score, ScoreValue) or score.kind != "number":
            return False
        if not isinstance(bound, Literal) or sign not in _MIRRORED:
            return False
        side = start.low if sign.startswith(">") else start.high
        is_repeated = any(side is other and call == score.call for other, call, _ in limits)
        if score.call in side or is_repeated:
            return False
        limits.append((side, score.call, Limit(float(bound.value), len(sign) == 1)))
    for side, call, limit in limits:
        side[call] = limit
    return True
