"""Measures the terms of a predicate on a small part of the data: their cost, and how many samples pass them."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from wdsflow.filtering.where.language.values import Call, Values

from .predicate import Term, Where
from .predicate_planner import Plan, plan


@dataclass(frozen=True)
class Pilot:
    """Measurements on some samples, for which every score of a predicate was computed.

    ``seconds`` is the cost of each score per sample. ``passed`` counts the samples that passed exactly these terms, a
    bit for each term in the order of the text; it determines the exact cost of any order. A sample passes a term that
    is not false: an unknown term drops no sample.
    """

    where: Where
    seconds: Mapping[Call, float]
    passed: Mapping[int, int]

    @property
    def samples(self) -> int:
        """How many samples were measured."""
        return sum(self.passed.values())

    @property
    def passing(self) -> dict[Term, float]:
        """The share of samples that pass each term; nothing if no sample was measured."""
        return {term: self.reaching((term,)) for term in self.where.terms} if self.samples else {}

    def reaching(self, terms: Iterable[Term]) -> float:
        """Return the share of samples that pass all of some terms, and reach the next one."""
        mask = sum(1 << self.where.terms.index(term) for term in terms)
        there = sum(count for bits, count in self.passed.items() if bits & mask == mask)
        return there / max(self.samples, 1)

    def to_json(self) -> dict[str, Any]:
        """Return JSON for `pilot_from_json`."""
        return {
            "seconds": {str(call): cost for call, cost in self.seconds.items()},
            "passed": {str(bits): count for bits, count in sorted(self.passed.items())},
        }


def pilot_of(where: Where, rows: Iterable[Values], seconds: Mapping[Call, float]) -> Pilot:
    """Return the measurements, given the values of all scores for each sample."""
    found: Counter[int] = Counter()
    for values in rows:
        found[sum(1 << at for at, term in enumerate(where.terms) if term.result(values) is not False)] += 1
    return Pilot(where, dict(seconds), dict(found))


def pilot_from_json(where: Where, data: Mapping[str, Any]) -> Pilot:
    """Return a stored pilot, for the predicate for which it was measured. Raises KeyError if it lacks a score."""
    seconds = {call: float(data["seconds"][str(call)]) for call in where.calls}
    return Pilot(where, seconds, {int(bits): int(count) for bits, count in data["passed"].items()})


def plan_by(text: str, where: Where, *, last: Collection[Call] = ()) -> Plan:
    """Return the plan of a predicate by a pilot as JSON text, by costs of tiers where that is empty. Raises ValueError."""
    if not text:
        return plan(where, last=last)
    try:
        pilot = pilot_from_json(where, json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError("the pilot of this recipe was measured for another predicate: measure again") from None
    return plan(where, pilot.seconds, pilot.passing, last=last)
