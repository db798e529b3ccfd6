"""Counts the outcomes of the samples of a shard, with an example of each."""

from collections import Counter
from collections.abc import Iterable, Sequence

from wdsflow.expressions.expression import Term
from wdsflow.expressions.score_call import spelled
from wdsflow.filtering.ledger.sample_table import NOT_COMPARED, LedgerRow, ResizedImage, SampleTable
from wdsflow.filtering.predicates.values import Unknown, Value
from wdsflow.records.run_folder import ShardRecord
from wdsflow.text.utf8 import in_utf8

# Characters of an example.
_LONGEST = 200


class _Reasons:
    """How many samples have each reason, and an example of it."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.examples: dict[str, tuple[str, str]] = {}

    def is_new(self, reason: str) -> bool:
        """Count a sample. Return whether it is the first one of the reason."""
        self.counts[reason] += 1
        return self.counts[reason] == 1

    def add(self, reason: str, row: LedgerRow, detail: str) -> None:
        """Count a sample, which is the example if it is the first."""
        if self.is_new(reason):
            self.keep_example(reason, row, detail)

    def keep_example(self, reason: str, row: LedgerRow, detail: str) -> None:
        """Keep a sample as the example of a reason."""
        self.examples[reason] = in_utf8(row.key)[:_LONGEST], in_utf8(detail)[:_LONGEST]


def count_outcomes(samples: SampleTable, record: ShardRecord, terms: Sequence[Term]) -> None:
    """Add the outcomes of a shard's samples to its record.

    ``terms``: those of the predicate.
    """
    dropped = _Reasons()
    quarantined = _Reasons()
    failed = _failures(samples)
    resized: list[ResizedImage] = []
    kept_keys = []
    for row in samples.rows:
        if row.outcome == "kept":
            kept_keys.append(row.key)
            resized += row.resized
        elif row.outcome == "dropped":
            term = row.term or ""
            # The values are looked up for examples alone.
            if dropped.is_new(term):
                dropped.keep_example(term, row, row.detail or _values(samples, row, term, terms))
        else:
            quarantined.add(row.error or "", row, row.detail or "")
    record.samples = len(samples.rows)
    record.kept += len(kept_keys)
    record.uncounted = count_uncounted(kept_keys)
    if resized:
        record.resized = {
            "images": len(resized),
            "bytes before": sum(image["bytes"][0] for image in resized),
            "bytes after": sum(image["bytes"][1] for image in resized),
        }
    record.dropped = dict(sorted(dropped.counts.items()))
    record.quarantined = dict(sorted(quarantined.counts.items()))
    record.failed = dict(sorted(failed.counts.items()))
    examples: dict[str, tuple[str, str]] = {}
    for kind, reasons in (("dropped", dropped), ("quarantined", quarantined), ("failed", failed)):
        examples |= {f"{kind} {reason}": example for reason, example in reasons.examples.items()}
    record.examples = dict(sorted(examples.items()))


def _failures(samples: SampleTable) -> _Reasons:
    """Return how often each score failed and why, also for samples that were decided without it."""
    failed = _Reasons()
    for call, column in samples.columns.items():
        if Unknown not in set(map(type, column.values())):
            continue
        for row in samples.rows:
            value = column.get(row.number)
            if isinstance(value, Unknown) and value != NOT_COMPARED:
                failed.add(f"{call}: {value.slug}", row, value.detail)
    return failed


def count_uncounted(keys: Iterable[str]) -> int:
    """Return how many samples readers do not count, because their key is a duplicate."""
    unique = set[str]()
    duplicates = 0
    for key in keys:
        duplicates += key in unique
        unique.add(key)
    return duplicates


def _values(samples: SampleTable, row: LedgerRow, name: str, terms: Sequence[Term]) -> str:
    """Return the values by which a term dropped a sample, such as "min_side is 64"."""
    for term in terms:
        if str(term) != name:
            continue
        texts: list[str] = []
        for call in term.scores:
            column = samples.columns[call]
            if row.number in column:
                texts.append(f"{call} is {_shown(column[row.number])}")
        return ", ".join(texts)
    return ""


def _shown(value: Value | Unknown) -> str:
    if isinstance(value, Unknown):
        return f"unknown ({value.slug})"
    if value is None:
        return "null"
    return " and ".join(map(_shown, value)) if isinstance(value, list) else spelled(value)
