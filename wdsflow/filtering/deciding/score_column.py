"""All values of one score in the ledgers of a run, and how many samples a threshold keeps."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wdsflow.expressions.score_call import Constant, ScoreCall
from wdsflow.filtering.ledger.sample_table import LedgerRow, quarantine_same_key_neighbours
from wdsflow.filtering.predicates.catalog import parse
from wdsflow.stages.scores.score_catalog import all_scores
from wdsflow.text.words import number_text, roundest, roundest_after

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]
    Flags = NDArray[np.bool_]


@dataclass
class ScoreColumn:
    """The values of a score in all ledgers of a run.

    Numbers take up to 24 bytes of memory per sample; shards in which a key occurs more than once
    take their keys as well. A threshold keeps the larger numbers, ``score > x``, or the smaller
    ones, ``score < x``. If a sample has several values, the smallest counts, or the largest: the
    comparison must hold for each.

    Attributes:
        call: the score.
        kind: "number", "boolean" or "text".
        keeps_small: whether a threshold keeps the smaller numbers.
        samples: all samples of the shards.
        unreadable: samples that could not be read, or that a stage dropped: no predicate keeps
            them.
        missing: samples for which the score was not computed.
        failed: samples for which it could not be computed, by error.
        several: samples with more than one value.
        where: a part of the run's predicate; without it, the score of some samples is missing. None
            if the ledgers do not determine the effect of a threshold.
        numbers: the values, sorted; only for numbers.
        eligible: the values, sorted, of the samples that ``where`` keeps.
        shards_with_repeated_keys: their keys and values.
        counts: how often each value occurs; only for truth values and texts, None if there are more
            than 10,000.
    """

    call: ScoreCall
    kind: str
    keeps_small: bool = False
    samples: int = 0
    unreadable: int = 0
    missing: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    several: int = 0
    where: str | None = ""
    numbers: "Numbers | None" = None
    counts: Counter[Constant] | None = field(default_factory=Counter)
    eligible: "Numbers | None" = None
    shards_with_repeated_keys: list[tuple[list[str], "Numbers"]] = field(default_factory=list)

    @property
    def computed(self) -> int:
        """The number of samples with a value."""
        return self.samples - self.unreadable - self.missing - self.failed.total()

    def count_kept(self, bound: float) -> int:
        """Return how many samples ``wdsflow filter --ledger`` keeps with ``predicate(bound)``."""
        import numpy as np

        assert self.eligible is not None
        if self.keeps_small:
            kept = int(np.searchsorted(self.eligible, bound, "left"))
            return kept - sum(
                _count_same_key_neighbours(keys, values < bound)
                for keys, values in self.shards_with_repeated_keys
            )
        kept = len(self.eligible) - int(np.searchsorted(self.eligible, bound, "right"))
        return kept - sum(
            _count_same_key_neighbours(keys, values > bound)
            for keys, values in self.shards_with_repeated_keys
        )

    @property
    def comparison(self) -> str:
        """The operator between the score and a threshold."""
        return "<" if self.keeps_small else ">"

    def predicate(self, bound: float) -> str:
        """Return the predicate that keeps the values on the good side of a number."""
        threshold = f"{self.call} {self.comparison} {number_text(bound)}"
        if not self.where:
            return threshold
        return str(parse(f"({self.where}) and {threshold}", all_scores()))

    def round_thresholds(self) -> list[float]:
        """Return round numbers near the deciles, without those that keep nothing."""
        nearest = roundest_after if self.keeps_small else roundest
        thresholds: dict[float, None] = {}
        for share in range(10, 100, 10):
            low = self.quantile((share - 5) / 100)
            high = self.quantile((share + 5) / 100)
            if low < high:
                thresholds[nearest(low, high)] = None
        return [
            number for number in thresholds if math.isfinite(number) and self.count_kept(number)
        ]

    def threshold_for(self, share: float) -> float | None:
        """Return the number of fewest digits that keeps about this share of all samples.

        None if no number divides the samples.
        """
        values = self.eligible
        if values is None or not len(values) or values[0] == values[-1]:
            return None
        exact, left, right = self._equal_range(share)
        borders = [index for index in (left, right) if 0 < index < len(values)]
        border = min(borders, key=lambda index: abs(index - exact))
        nearest = roundest_after if self.keeps_small else roundest
        threshold = nearest(float(values[border - 1]), float(values[border]))
        # A predicate cannot express infinity.
        return threshold if math.isfinite(threshold) else None

    def frequent_value_at(self, share: float) -> tuple[float, int] | None:
        """Return the frequent value that keeps thresholds away from a share, and its count.

        The share is one of all samples. The count is the number of samples with the value.

        None if some threshold keeps the share within 1 % of all samples.
        """
        if self.eligible is None or not len(self.eligible):
            return None
        exact, left, right = self._equal_range(share)
        if min(exact - left, right - exact) <= 0.01 * self.samples:
            return None
        return float(self.eligible[left]), right - left

    def _equal_range(self, share: float) -> tuple[float, int, int]:
        """Return the index before which a threshold keeps a share of all samples.

        Also returns the range of equal values around it.
        """
        import numpy as np

        values = self.eligible
        assert values is not None
        exact = len(values) - share * self.samples
        index = min(max(round(exact), 0), len(values) - 1)
        if self.keeps_small:
            exact = share * self.samples
            index = len(values) - 1 - index
        left = int(np.searchsorted(values, values[index], "left"))
        right = int(np.searchsorted(values, values[index], "right"))
        return exact, left, right

    def quantile(self, share: float) -> float:
        """Return the quantile of the values for this share: always one of the values."""
        import numpy as np

        assert self.numbers is not None
        return float(np.quantile(self.numbers, share, method="inverted_cdf"))


def _count_same_key_neighbours(keys: Sequence[str], kept: "Flags") -> int:
    """Return how many kept samples are quarantined because they follow one of the same key.

    All samples between the two are dropped.
    """
    rows = [LedgerRow(number, key, 0, 0) for number, key in enumerate(keys) if kept[number]]
    quarantine_same_key_neighbours(rows)
    return sum(row.outcome != "kept" for row in rows)
