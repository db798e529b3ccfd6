"""How many samples are drawn until a share of lost samples is known to be below or above a limit.

After a planned number of draws, at each look, "p > limit" is rejected if P(X <= lost) under p =
limit is at most the share of the error that this look may spend: the exact bound of Clopper and
Pearson (Biometrika 26, 1934). The shares of all looks add up to at most 1 - confidence, so that
repeated looks do not increase the error (Bonferroni; alpha spending, Lan and DeMets, Biometrika 70,
1983). "p <= limit" is rejected in the same way, with an error of its own.
"""

import math
from collections.abc import Iterator
from typing import Literal

SampledOutcome = Literal["proven", "refuted", "undecided"]

# Draws before the first look, which can only refute.
_FIRST = 32
# Times as many draws as a set without lost samples needs: then it stays undecided.
_LAST = 16
# Halvings of an interval: more than the digits of a number.
_HALVINGS = 60


def interim_looks(error: float, limit: float) -> Iterator[tuple[int, float]]:
    """Yield the numbers of draws after which the test looks, each with its share of the error.

    This is the error that the test may spend on "proven" at that look.

    The first look that can prove is the first at which a set without a lost sample passes. The
    errors are error / 2, error / 4 and so on.

    >>> list(interim_looks(0.01, 0.1))[:4]
    [(32, 0.0), (51, 0.005), (102, 0.0025), (204, 0.00125)]
    """
    first = math.ceil(math.log(error / 2) / math.log1p(-limit))
    draws = _FIRST
    while draws < first:
        yield draws, 0.0
        draws *= 2
    for doubling in range(_LAST.bit_length()):
        yield first << doubling, error / (2 << doubling)


def decide(
    lost: int, draws: int, limit: float, may_prove: float, may_refute: float
) -> SampledOutcome:
    """Return the outcome of a look.

    Args:
        lost: samples among the draws.
        draws: so far.
        limit: the share of lost samples, 0 to 1, that is in question.
        may_prove: the error that this look may spend on "proven".
        may_refute: the same for "refuted".
    """
    if may_prove and at_most(lost, draws, limit) <= may_prove:
        return "proven"
    if lost and 1 - at_most(lost - 1, draws, limit) <= may_refute:
        return "refuted"
    return "undecided"


def at_most(lost: int, draws: int, share: float) -> float:
    """Return the probability of at most ``lost`` lost samples among the draws.

    ``share`` is the share of all samples that is lost.
    """
    if lost >= draws or share <= 0:
        return 1.0
    if share >= 1:
        return 0.0
    # In logarithms: the factorials of many draws are no floats.
    log_draws = math.lgamma(draws + 1)
    log_odds = math.log(share) - math.log1p(-share)
    log_none_lost = draws * math.log1p(-share)
    terms = []
    for k in range(lost + 1):
        log_term = log_draws - math.lgamma(k + 1) - math.lgamma(draws - k + 1) + k * log_odds
        terms.append(math.exp(log_term + log_none_lost))
    return min(1.0, math.fsum(terms))


def upper_bound(lost: int, draws: int, error: float) -> float:
    """Return the Clopper-Pearson upper bound on the share of lost samples.

    It is the largest share for which so few lost samples have the probability ``error``.
    """
    low = lost / draws
    high = 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if at_most(lost, draws, middle) > error:
            low = middle
        else:
            high = middle
    return high
