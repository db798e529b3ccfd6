"""A parsed predicate, and its judgement of a sample."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from wdsflow.filtering.where.language.parser import Parser
from wdsflow.filtering.where.language.tokens import WhereError
from wdsflow.filtering.where.language.tree import And, IsNull, NameRef, Node, calls_of, printed, printed_term
from wdsflow.filtering.where.language.values import PENDING, Call, Result, ScoreType, Unknown, Values

from .evaluate_predicate import Run, over, runner
from .known_facts import FACTS
from .seek import Seek, seeker


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

    def __getstate__(self) -> dict[str, Any]:
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
