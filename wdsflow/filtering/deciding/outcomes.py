"""Counts the outcomes of a shard, and finds broken scores.

A broken score, unlike bad samples, fails for each of the first hundred samples: a missing library or file of weights, or
a bug in a custom score, would otherwise quarantine millions of samples. Exceptions count, and models without memory
for an item. A score that reports why it has no value for a sample (ScoreError) is neither broken nor proven by that.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from wdsflow.engines.base import EngineError
from wdsflow.expressions.expression import Term
from wdsflow.expressions.score_call import ScoreCall, spelled
from wdsflow.filtering.ledger.sample_table import NOT_COMPARED, ResizedImage, Row, SampleTable, in_utf8
from wdsflow.filtering.predicates.values import Unknown, Value
from wdsflow.filtering.run_folder import ShardFailure, ShardRecord
from wdsflow.memory.batching.attempt import OUT_OF_MEMORY, POISONED

MOST = 100  # samples


class BrokenScoreError(ValueError):
    """A score, ``blames``, fails for all samples."""

    def __init__(self, call: str, error: Unknown, key: str) -> None:
        about = f"{error.slug.removeprefix('raised-')}: {error.detail}" if error.detail else error.slug
        super().__init__(
            f"{call} failed for each of the first {MOST} samples. The fault is in the score, not in a sample,"
            f" and no sample was quarantined for it. At {key}: {about}"
        )
        self.blames = call


class BrokenRunError(EngineError):
    """A score fails for all samples so far: the run ends."""


class BrokenScoreGuard:
    """Checks the first samples of a shard for which each score is computed."""

    def __init__(self, calls: Iterable[ScoreCall]) -> None:
        self.open: dict[ScoreCall, set[int]] = {call: set() for call in calls}

    def check(self, samples: SampleTable, row: Row) -> None:
        """Count a sample as far as it is computed; it may be counted again. Raises BrokenScoreError."""
        for call in [*self.open]:
            value = samples.columns[call].get(row.number)
            if isinstance(value, Unknown):
                if not is_fault(value):
                    continue
                self.open[call].add(row.number)
                if len(self.open[call]) >= MOST:
                    raise BrokenScoreError(str(call), value, row.key)
            elif samples.has(row, call):
                del self.open[call]


def is_fault(error: Unknown) -> bool:
    """Return whether an error may be the fault of the score rather than of a sample."""
    return error.slug.startswith("raised-") or error.slug in {OUT_OF_MEMORY, POISONED}


def always_failing(samples: SampleTable, calls: Collection[ScoreCall]) -> dict[str, tuple[int, str, str]]:
    """Return the scores that failed for all samples, each with count, error and detail."""
    found: dict[str, tuple[int, str, str]] = {}
    for call in calls:
        values = samples.columns[call].values()
        failures = [value for value in values if isinstance(value, Unknown)]
        faults = list(filter(is_fault, failures))
        if faults and len(failures) == len(values) and not samples.gathered[call]:
            found[str(call)] = len(faults), *faults[-1]
    return found


class BrokenRunGuard:
    """Checks the shards of a run, because single shards may be too small.

    Shards in which a score failed for all samples are held back until another shard proves the score. If the run ends
    because of the score, they count as not done, and the next run processes them again.
    """

    def __init__(self, done: Iterable[ShardRecord]) -> None:
        self._proven = any(record.samples for record in done)  # proven by an earlier run
        self._held: list[ShardRecord] = []

    def take(self, record: ShardRecord) -> list[ShardRecord]:
        """Return the shards that now count as done. Raises BrokenRunError."""
        if not record.failing or self._proven:
            self._proven = self._proven or bool(record.samples)
            return [*self.rest(), record]
        self._held.append(record)
        for call, (_, slug, detail) in record.failing.items():
            count = sum(held.failing[call][0] for held in self._held if call in held.failing)
            if count >= MOST and all(call in held.failing for held in self._held):
                raise BrokenRunError(str(BrokenScoreError(call, Unknown(slug, detail), record.url)))
        return []

    def failed(self, failure: ShardFailure, blames: str) -> None:
        """Take a shard that failed because of a score. Raises BrokenRunError unless another shard has proven the score."""
        if blames and not self._proven:
            raise BrokenRunError(f"{failure.url}: {failure.reason}")

    def rest(self) -> list[ShardRecord]:
        """Return the shards that are still held back: they count now."""
        held, self._held = self._held, []
        return held


_LONGEST = 200  # characters


def count(samples: SampleTable, record: ShardRecord, terms: Sequence[Term]) -> None:
    """Add the outcomes of its samples to the record of a shard. ``terms``: those of the predicate."""
    dropped: Counter[str] = Counter()
    quarantined: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    examples: dict[str, tuple[str, str]] = {}
    resized: list[ResizedImage] = []
    rows = samples.rows
    for row in rows:
        if row.outcome == "kept":
            record.kept += 1
            resized += row.resized
        elif row.outcome == "dropped":
            dropped[what := row.term or ""] += 1
            if dropped[what] == 1:
                examples[f"dropped {what}"] = _example(row, row.detail or _values(samples, row, what, terms))
        else:
            quarantined[what := row.error or ""] += 1
            if quarantined[what] == 1:
                examples[f"quarantined {what}"] = _example(row, row.detail or "")
    for call, column in samples.columns.items():
        if Unknown not in set(map(type, column.values())):
            continue
        for row in rows:
            value = column.get(row.number)
            if isinstance(value, Unknown) and value != NOT_COMPARED:
                failed[what := f"{call}: {value.slug}"] += 1
                if failed[what] == 1:
                    examples[f"failed {what}"] = _example(row, value.detail)
    record.samples = len(rows)
    if resized:
        before, after = (sum(image["bytes"][at] for image in resized) for at in (0, 1))
        record.resized = {"images": len(resized), "bytes before": before, "bytes after": after}
    record.uncounted = uncounted([row.key for row in rows if row.outcome == "kept"])
    record.dropped, record.quarantined = dict(sorted(dropped.items())), dict(sorted(quarantined.items()))
    record.failed, record.examples = dict(sorted(failed.items())), dict(sorted(examples.items()))


def uncounted(keys: Iterable[str]) -> int:
    """Return how many samples readers do not count, because their key is a duplicate."""
    known, found = set[str](), 0
    for key in keys:
        found += key in known
        known.add(key)
    return found


def _example(row: Row, about: str) -> tuple[str, str]:
    return in_utf8(row.key)[:_LONGEST], in_utf8(about)[:_LONGEST]


def _values(samples: SampleTable, row: Row, term: str, terms: Sequence[Term]) -> str:
    """Return the values by which a term dropped a sample, such as "min_side is 64"."""
    found = next((each for each in terms if str(each) == term), None)
    columns = [(call, samples.columns[call]) for call in (found.scores if found else ())]
    return ", ".join(f"{call} is {_shown(column[row.number])}" for call, column in columns if row.number in column)


def _shown(value: Value | Unknown) -> str:
    if value is None or isinstance(value, Unknown):
        return f"unknown ({value.slug})" if value else "null"
    return " and ".join(map(_shown, value)) if isinstance(value, list) else spelled(value)
