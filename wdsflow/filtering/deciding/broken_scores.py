"""Finds broken scores, and ends what they would ruin.

A broken score, unlike bad samples, fails for each of the first hundred samples: a missing library
or file of weights, or a bug in a custom score, would otherwise quarantine millions of samples.
Exceptions count, and models without memory for an item. A score that reports why it has no value
for a sample (ScoreError) is neither broken nor proven by that.
"""

from collections.abc import Collection, Iterable

from wdsflow.engines.base import EngineError
from wdsflow.expressions.score_call import ScoreCall
from wdsflow.filtering.ledger.sample_table import LedgerRow, SampleTable
from wdsflow.filtering.predicates.values import Unknown
from wdsflow.memory.batching.attempt import OUT_OF_MEMORY, POISONED
from wdsflow.records.run_folder import ShardFailure, ShardRecord

# A score that fails for so many samples, and has a value for none before, is broken.
FIRST_SAMPLES = 100


class BrokenScoreError(ValueError):
    """A score fails for all samples; ``broken_part`` is its call."""

    def __init__(self, call: str, error: Unknown, key: str) -> None:
        reason = (
            f"{error.slug.removeprefix('raised-')}: {error.detail}" if error.detail else error.slug
        )
        super().__init__(
            f"{call} failed for each of the first {FIRST_SAMPLES} samples. The fault is in the score, not in a sample,"
            f" and no sample was quarantined for it. At {key}: {reason}"
        )
        self.broken_part = call


class BrokenRunError(EngineError):
    """A score fails for all samples so far: the run ends."""


class BrokenScoreGuard:
    """Checks the first samples of a shard for which each score is computed."""

    def __init__(self, calls: Iterable[ScoreCall]) -> None:
        self.open: dict[ScoreCall, set[int]] = {call: set() for call in calls}

    def check(self, samples: SampleTable, row: LedgerRow) -> None:
        """Count a sample as far as it is computed; it may be counted again.

        Raises BrokenScoreError.
        """
        for call in [*self.open]:
            value = samples.columns[call].get(row.number)
            if isinstance(value, Unknown):
                if not is_fault(value):
                    continue
                self.open[call].add(row.number)
                if len(self.open[call]) >= FIRST_SAMPLES:
                    raise BrokenScoreError(str(call), value, row.key)
            elif samples.has_value(row, call):
                del self.open[call]


def is_fault(error: Unknown) -> bool:
    """Return whether an error may be the fault of the score rather than of a sample."""
    return error.slug.startswith("raised-") or error.slug in {OUT_OF_MEMORY, POISONED}


def always_failing(
    samples: SampleTable, calls: Collection[ScoreCall]
) -> dict[str, tuple[int, str, str]]:
    """Return the scores that failed for all samples, each with count, error and detail."""
    failing: dict[str, tuple[int, str, str]] = {}
    for call in calls:
        values = samples.columns[call].values()
        failures = [value for value in values if isinstance(value, Unknown)]
        faults = list(filter(is_fault, failures))
        if faults and len(failures) == len(values) and not samples.gathered[call]:
            failing[str(call)] = len(faults), *faults[-1]
    return failing


class BrokenRunGuard:
    """Checks the shards of a run, because single shards may be too small.

    Shards in which a score failed for all samples are held back until another shard proves the
    score. If the run ends because of the score, they count as not done, and the next run processes
    them again.
    """

    def __init__(self, done: Iterable[ShardRecord]) -> None:
        # By an earlier run.
        self._proven = any(record.samples for record in done)
        self._held: list[ShardRecord] = []

    def accept(self, record: ShardRecord) -> list[ShardRecord]:
        """Take the result of a shard, and return the shards that now count as done.

        Raises BrokenRunError.
        """
        if not record.failing or self._proven:
            self._proven = self._proven or bool(record.samples)
            return [*self.release(), record]
        self._held.append(record)
        for call, (_, slug, detail) in record.failing.items():
            count = sum(held.failing[call][0] for held in self._held if call in held.failing)
            if count >= FIRST_SAMPLES and all(call in held.failing for held in self._held):
                raise BrokenRunError(str(BrokenScoreError(call, Unknown(slug, detail), record.url)))
        return []

    def accept_failure(self, failure: ShardFailure, broken_part: str) -> None:
        """Take a shard that failed because of a score.

        Raises BrokenRunError unless another shard has proven the score.
        """
        if broken_part and not self._proven:
            raise BrokenRunError(f"{failure.url}: {failure.reason}")

    def release(self) -> list[ShardRecord]:
        """Return the shards that are still held back: they count as done now."""
        held, self._held = self._held, []
        return held
