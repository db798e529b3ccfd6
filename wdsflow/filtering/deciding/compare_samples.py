"""Computes scores that compare samples, between two passes.

It queries the ledgers of all shards.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from wdsflow.expressions.score_call import ScoreCall
from wdsflow.filtering.ledger.ledger_metadata import LedgerError
from wdsflow.filtering.predicates.values import Unknown, Value
from wdsflow.memory.batching.exceptions import describe
from wdsflow.records.run_folder import Layout
from wdsflow.shards.atomic import scratch_folder
from wdsflow.stages.scores.base import DatasetScore, QueryScore
from wdsflow.stages.scores.comparing.compared_table import CREATE_COMPARED
from wdsflow.tables import Tables

from .broken_scores import FIRST_SAMPLES, BrokenRunError, BrokenScoreError, is_fault
from .compared_ledgers import ComparedLedgers
from .compared_values import StoredValue, write_values
from .plan import FilterPlan
from .score_values import RAISED, is_builtin, plain_value, result_or_unknown


def compare_samples(
    plan: FilterPlan,
    shards: Sequence[tuple[int, str]],
    scored: Layout,
    target: Layout,
    *,
    memory: int = 256 << 20,
) -> None:
    """Compare samples by each comparing score, and write its values to one file per shard.

    Scores that compare only samples that the rest of the predicate keeps come last: for them the
    other scores are ordinary terms. ``shards`` are numbers and names in order; ``scored`` has a
    ledger for each. Raises LedgerError if one is missing, or lacks the gathered data.
    """
    for path in target.resolved_folder.glob("*.json"):
        path.unlink()
    ledgers = ComparedLedgers(plan, shards, scored, target)
    for call in [*plan.compared_among_all, *plan.compared_among_kept]:
        score = plan.scores[call]
        assert isinstance(score, DatasetScore)
        scratch = target.spool / "compared"
        with scratch_folder(scratch), Tables(scratch, memory=memory // 2) as tables:
            if isinstance(score, QueryScore):
                tables.run(CREATE_COMPARED)
                ledgers.insert(tables, call)
                values = score.column(tables, memory=memory)
            else:
                values = score.resolve(ledgers.records(tables, call), scratch, memory=memory)
            write_values(plan, call, shards, target, _checked(call, score, values))


def _checked(
    call: ScoreCall, score: DatasetScore, values: Iterable[tuple[int, int, Value]]
) -> Iterator[tuple[int, int, StoredValue]]:
    """Yield (shard, sample, value) of a comparison.

    A refused value becomes {"slug": ..., "detail": ...}.

    Raises BrokenRunError if ``resolve`` of a custom score fails, or the first 100 of its values are
    refused.
    """
    if is_builtin(score):
        yield from values
        return
    refused = 0
    any_valid = False
    try:
        for shard, sample, value in values:
            plain = result_or_unknown(partial(plain_value, score, value), None)
            if not isinstance(plain, Unknown):
                any_valid = True
                yield shard, sample, plain
                continue
            any_valid = any_valid or not is_fault(plain)
            refused += 1
            if refused == FIRST_SAMPLES and not any_valid:
                raise BrokenRunError(
                    str(BrokenScoreError(str(call), plain, f"sample {sample} of shard {shard}"))
                )
            yield shard, sample, {"slug": plain.slug, "detail": plain.detail}
    except (OSError, LedgerError, BrokenRunError):
        # Not of resolve(): ``values`` also reads the ledgers.
        raise
    except RAISED as error:
        raise BrokenRunError(f"{call}: resolve() raised {describe(error)}") from error
