"""A parsed predicate, and its judgement of a sample."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from wdsflow.stages.scores.base import Score

from .evaluate_predicate import SIGNS, Run, Seek, over, runner, seeker
from .known_facts import FACTS
from .parser import Parser
from .tokens import WhereError
from .tree import (
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
    printed_term,
)
from .values import PENDING, Call, Result, ScoreType, Unknown, Values


@dataclass(frozen=True)
class Term:
    """A top-level conjunct. ``text`` is what the user wrote, ``str()`` the canonical form; equal trees are equal.

    ``place`` is where it begins and ends in the whole predicate.
    """

    text: str = field(compare=False)
    node: Node
    place: tuple[int, int] = field(default=(0, 0), compare=False)

    def __str__(self) -> str:
        return self.spelled

    @cached_property
    def spelled(self) -> str:
        """The canonical form."""
        return printed_term(self.node)

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        """The scores of the term, each once, in the order of the text."""
        return tuple(dict.fromkeys(calls_of(self.node)))

    @cached_property
    def run(self) -> Run:
        """The function from values to a result; several entries are not yet folded into one."""
        return runner(self.node)

    @cached_property
    def seek(self) -> Seek:
        """The function from values to the missing scores that may still decide the term."""
        return seeker(self.node)

    def result(self, values: Values) -> Result:
        """Return True, False, an Unknown, or PENDING. A condition over several entries must hold for all."""
        return over(self.run(values), decisive=False)

    def __getstate__(self) -> dict[str, object]:
        return {"text": self.text, "node": self.node, "place": self.place}


class Judgement(NamedTuple):
    """The judgement of a predicate on a sample.

    ``keep`` is True, False, or None if it is not known. ``term`` is the deciding term: the first false one, or the
    first unknown one. ``unknown`` is the reason why it will never be known; None while missing scores may still decide.
    """

    keep: bool | None
    term: Term | None = None
    unknown: Unknown | None = None

    @property
    def settled(self) -> bool:
        """Whether no further score can change it."""
        return self.keep is not None or self.unknown is not None


MOST_TERMS = 256  # the time of a plan is quadratic in it
KEEP = Judgement(keep=True)
OPEN = Judgement(keep=None)


def judge(terms: tuple[Term, ...], values: Values) -> Judgement:
    """Judge by terms in an order, which decides only which false or unknown term is named."""
    unknown: tuple[Term, Unknown] | None = None
    pending = False
    for term in terms:
        result = term.result(values)
        if result is False:
            return Judgement(keep=False, term=term)
        if result is PENDING:
            pending = True
        elif unknown is None and isinstance(result, Unknown):
            unknown = term, result
    if pending:
        return OPEN
    return Judgement(None, *unknown) if unknown else KEEP


@dataclass(frozen=True)
class Where:
    """A predicate. ``str()`` is its canonical form, which parses to an equal one; ``text`` is what the user wrote."""

    text: str = field(compare=False)
    terms: tuple[Term, ...]
    tiers: tuple[tuple[Call, str], ...] = field(compare=False)

    def __str__(self) -> str:
        return " and ".join(map(str, self.terms)) if len(self.terms) > 1 else printed(self.terms[0].node)

    @property
    def calls(self) -> tuple[Call, ...]:
        """The scores of the predicate, each once, in the order of the text."""
        return tuple(call for call, _ in self.tiers)

    def judge(self, values: Values) -> Judgement:
        """Judge a sample by the values computed so far; a score that is not in there is yet to be computed."""
        return judge(self.terms, values)


def parse(text: str, scores: Mapping[str, ScoreType]) -> Where:
    """Return the predicate that a text means. Raises WhereError, with the place and what to write instead.

    ``scores`` are classes or objects with a name, a kind and a tier. ``caption``, ``key`` and ``has("json")`` are known
    as well.
    """
    parser = Parser(text, {**FACTS, **scores})
    whole = parser.parse()
    parts = whole.parts if isinstance(whole.node, And) else (whole,)
    if len(parts) > MOST_TERMS:
        place = parts[MOST_TERMS]
        raise WhereError(
            text, place.start, place.end, f"more than {MOST_TERMS} terms", "a list is shorter: x in (1, 2)"
        )
    terms = dict.fromkeys(
        Term(" ".join(text[part.start : part.end].splitlines()), part.node, (part.start, part.end)) for part in parts
    )
    tiers = {call: parser.names.tier(call.name) for term in terms for call in term.calls}
    return Where(text, tuple(terms), tuple(tiers.items()))


def parse_score(text: str, names: Mapping[str, ScoreType]) -> Call:
    """Return the score that a text names, with its settings, such as ``near_duplicate(distance=4)``.

    Raises ValueError if it names none, or says more.
    """
    try:
        terms = parse(f"{text} is null", names).terms
    except WhereError as error:
        if error.start > len(text):  # the addition does not fit: the text is a whole condition
            raise ValueError(_NO_SCORE.format(text)) from None
        told = f"; {error.hint}" if error.hint else ""
        raise ValueError(f"scores: {text!r}: {error.detail}{told}") from None
    node = terms[0].node
    if len(terms) > 1 or not (isinstance(node, IsNull) and isinstance(node.body, NameRef)):
        raise ValueError(_NO_SCORE.format(text))
    return node.body.call


_NO_SCORE = "scores: {!r} is not the name of a score; conditions belong in --where, and all scores are listed by: wdsflow scores"


class _Range(NamedTuple):
    low: float = -math.inf
    high: float = math.inf


_ANY = _Range()


def check_ranges(where: Where, names: Mapping[str, type[Score]]) -> list[str]:
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


def _fixed(node: Node, known: Mapping[str, type[Score]]) -> Iterator[tuple[Node, bool]]:
    """Yield the comparisons of scores that have one result, and that result."""
    if isinstance(node, (Compare, Membership)):
        holds = _holds(node, known)
        if holds is not None and any(True for _ in calls_of(node)):
            yield node, holds
        return
    for child in children(node) if not isinstance(node, IsNull) else ():  # a test of null is not one of values
        yield from _fixed(child, known)


def _holds(node: Node, known: Mapping[str, type[Score]]) -> bool | None:
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


def _range(node: Node, known: Mapping[str, type[Score]]) -> _Range:
    match node:
        case Literal(value) if not isinstance(value, str):
            return _Range(float(value), float(value))
        case NameRef(call, "number"):
            score = known.get(call.name)
            ends: list[float | None] = [getattr(score, end, None) for end in ("low", "high")]
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
    ends = [float(SIGNS[sign](one, other)) for one in left for other in right]
    return _ANY if any(map(math.isnan, ends)) else _Range(min(ends), max(ends))


def _about(node: Node, known: Mapping[str, type[Score]]) -> str:
    """Return the ranges of the scores of a comparison."""
    return ", ".join(f"{call} is {range_text(known[call.name])}" for call in dict.fromkeys(calls_of(node)))


def range_text(score: type[Score]) -> str:
    """Return the range of a score in words."""
    if score.low is None or score.high is None:
        end, word = (score.high, "at most") if score.low is None else (score.low, "at least")
        return "any number" if end is None else f"{word} {end:g}"
    return f"from {score.low:g} to {score.high:g}"


def _hint(node: Node, known: Mapping[str, type[Score]]) -> str:
    """Return the comparison with a share where a percentage was written."""
    match node:
        case Compare((sign,), (NameRef(call) as name, Literal(value))):
            score = known[call.name]
            if score.high == 1 and not isinstance(value, str) and 1 < value <= 100:
                return f"write {printed(Compare((sign,), (name, Literal(value / 100))))}"
    return "scores and their ranges: wdsflow scores"
