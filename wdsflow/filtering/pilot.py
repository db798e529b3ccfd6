"""Measurements on some samples: the cost of each score, and which samples pass each term."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from wdsflow.expressions.evaluator import Evaluator
from wdsflow.expressions.expression import Expression, Term
from wdsflow.expressions.score_call import ScoreCall
from wdsflow.filtering.deciding.row_values import results
from wdsflow.filtering.ledger.sample_table import SampleTable


@dataclass(frozen=True)
class Pilot:
    """Measurements on some samples, for which every score of a predicate was computed.

    ``seconds`` is the cost of each score per sample. ``passed`` counts the samples that passed
    exactly these terms, a bit for each term in the order of ``terms``; it determines the exact cost
    of any order. A sample passes a term that is not false: an unknown term drops no sample.
    ``unmeasured``: scores that were not computed, as they need a model. ``several``: scores of
    which some sample has several values. ``stored``: scores that are taken from ledgers.
    """

    terms: Sequence[Term]
    seconds: Mapping[ScoreCall, float]
    passed: Mapping[int, int]
    unmeasured: frozenset[ScoreCall] = frozenset()
    several: tuple[ScoreCall, ...] = ()
    stored: frozenset[ScoreCall] = frozenset()

    @property
    def samples(self) -> int:
        """How many samples were measured."""
        return sum(self.passed.values())

    def share_reaching(self, terms: Iterable[Term]) -> float:
        """Return the share of samples that pass all of some terms, and reach the next one."""
        mask = sum(1 << self.terms.index(term) for term in terms)
        passed = sum(count for bits, count in self.passed.items() if bits & mask == mask)
        return passed / max(self.samples, 1)


def pilot_of(
    expression: Expression,
    samples: SampleTable,
    seconds: Mapping[ScoreCall, float],
    unmeasured: Iterable[ScoreCall] = (),
    stored: frozenset[ScoreCall] = frozenset(),
) -> Pilot:
    """Return the measurements, given samples with the values of all measured scores."""
    bits = [0] * len(samples.rows)
    for number, term in enumerate(expression.terms):
        answers = results(Evaluator(replace(expression, terms=(term,))), samples, samples.rows)
        for index, result in enumerate(answers):
            if result is not False:
                bits[index] |= 1 << number
    several = (
        call for call in expression.scores if list in set(map(type, samples.columns[call].values()))
    )
    return Pilot(
        expression.terms,
        dict(seconds),
        dict(Counter(bits)),
        frozenset(unmeasured),
        tuple(several),
        stored,
    )
