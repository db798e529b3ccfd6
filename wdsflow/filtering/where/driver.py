"""Runs samples through a plan, computing each score only when it is needed."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from .evaluate_predicate import KINDS
from .fast_path import fast_test
from .predicate import KEEP, OPEN, Judgement, Term
from .tree import NameRef, Node, children
from .values import PENDING, Call, Kind, Unknown, Value

V = TypeVar("V")
Found = dict[Call, Value | Unknown]


class Driver:
    """Runs samples through terms in an order. It holds functions, so it is created where it is used, never pickled.

    The result is the same as judging all terms after each score; only terms that a new score affects are judged.
    """

    def __init__(self, terms: tuple[Term, ...], rank: Mapping[Call, int]) -> None:
        self._terms = terms
        self._drop = [Judgement(keep=False, term=term) for term in terms]
        self._single = [term.calls[0] if len(term.calls) == 1 else None for term in terms]
        self._rank = rank
        self._before = [term.result({}) for term in terms]  # constants alone may decide
        kinds = {call: KINDS[kind] for term in terms for call, kind in _kinds(term.node).items()}
        fast = [term.fast for term in terms]
        touched = {call: [at for at, term in enumerate(terms) if call in term.calls] for call in kinds}
        self._about = {call: (kinds[call], [(at, fast[at]) for at in touched[call]]) for call in kinds}

    def __call__(self, compute: Callable[[Call], Any]) -> tuple[Judgement, dict[Call, Value | Unknown]]:
        """Judge a sample; return the judgement and the values that were computed for it."""
        values: dict[Call, Value | Unknown] = {}
        results: list[Any] = self._before.copy()
        plain, about = True, self._about
        if False in results:
            return self._drop[results.index(False)], values
        for at, single in enumerate(self._single):
            while results[at] is PENDING:
                call = single or self._next(at, values)
                value = compute(call)
                if value is PENDING:
                    return OPEN, values
                values[call] = value
                kinds, touched = about[call]
                plain = plain and value.__class__ in kinds and value == value  # noqa: PLR0124 (NaN)
                for other, fast in touched:
                    if results[other] is PENDING:
                        try:
                            result = fast(values) if plain else self._terms[other].result(values)
                        except (KeyError, ArithmeticError):
                            result = self._terms[other].result(values)
                        results[other] = result
                        if result is False:
                            return self._drop[other], values
        for at, result in enumerate(results):
            if result is not True:
                return Judgement(None, self._terms[at], result), values
        return KEEP, values

    def straight(
        self, ways: Mapping[Call, Callable[[V], Any]]
    ) -> "Callable[[V], tuple[Judgement | None, Found]] | None":
        """Return a function that judges a sample without any values, as far as possible without choices.

        It returns the judgement, None if it is left open, and the values. It goes through the first terms, as long as
        each asks for one score that no term of several asks for, and that ``ways`` has; it stops where a value is not
        plain. None if not even the first term is like that. A way may raise whatever it likes.
        """
        several = {call for term in self._terms if len(term.calls) != 1 for call in term.calls}
        steps: dict[Call, tuple[tuple[type, ...], list[tuple[Callable[[Any], Any], Judgement]]]] = {}
        whole = all(result is PENDING for result in self._before)
        for single in self._single if whole else ():
            whole = single is not None and single in ways and single not in several
            if single is None or not whole:
                break
            touched = [(fast_test(self._terms[at].node, single), self._drop[at]) for at, _ in self._about[single][1]]
            steps[single] = self._about[single][0], touched
        if not steps:
            return None
        road, end = [(call, ways[call], *step) for call, step in steps.items()], KEEP if whole else None

        def run(view: V) -> tuple[Judgement | None, Found]:
            values: Found = {}
            for call, way, kinds, tests in road:
                values[call] = value = way(view)
                if value.__class__ not in kinds or value != value:  # noqa: PLR0124 (NaN)
                    return None, values
                try:
                    for test, drop in tests:
                        if not test(value):
                            return drop, values
                except (KeyError, ArithmeticError):
                    return None, values
            return end, values

        return run

    def _next(self, at: int, values: dict[Call, Any]) -> Call:
        return min(self._terms[at].seek(values), key=self._rank.__getitem__)


def _kinds(node: Node) -> dict[Call, Kind]:
    found: dict[Call, Kind] = {node.call: node.kind} if isinstance(node, NameRef) else {}
    for child in children(node):
        found.update(_kinds(child))
    return found
