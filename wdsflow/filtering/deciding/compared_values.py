"""Values of custom scores that compare samples: checked like all others, and stored in the folder as JSON."""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from wdsflow.filtering.kinds import kind_of
from wdsflow.filtering.ledger.ledger_metadata import LedgerError
from wdsflow.filtering.ledger.ledger_row import Row
from wdsflow.filtering.recipe.recipe import Recipe
from wdsflow.filtering.where.language.values import Call, Unknown
from wdsflow.memory.batching.oom import describe
from wdsflow.stages.scores.base import DatasetScore
from wdsflow.stages.scores.sample_view import View, ViewOptions

from .broken_scores import MOST, BrokenRunError, BrokenScoreError, is_fault
from .checked_values import is_ours, plain_value
from .failures import RAISED, guarded


def as_json(call: Call, score: DatasetScore, found: Iterable[Any]) -> Iterator[tuple[int, int, Any]]:
    """Yield (shard, sample, value) from ``resolve``; a refused value becomes {"slug": ..., "detail": ...}.

    Raises BrokenRunError if ``resolve`` of a custom score fails, or the first 100 of its values are refused.
    """
    if is_ours(score):
        yield from found
        return
    refused: int | None = 0  # None as soon as one value is valid
    try:
        for shard, sample, value in found:
            plain = guarded(partial(plain_value, score, value), None)
            if not isinstance(plain, Unknown):
                refused = None
                yield shard, sample, plain
                continue
            refused = None if refused is None or not is_fault(plain) else refused + 1
            if refused == MOST:
                raise BrokenRunError(str(BrokenScoreError(str(call), plain, f"sample {sample} of shard {shard}")))
            yield shard, sample, {"slug": plain.slug, "detail": plain.detail}
    except (OSError, LedgerError, BrokenRunError):  # of the caller, who reads the records
        raise
    except RAISED as error:
        raise BrokenRunError(f"{call}: resolve() raised {describe(error)}") from error


def from_json(score: DatasetScore, value: Any, row: Row, name: str, recipe: Recipe) -> Any:
    """Return a value of ``as_json``, or Unknown: also if a list does not have one value for each image of the sample."""
    if isinstance(value, dict):
        return Unknown(**value)
    if not isinstance(value, list) or not kind_of(name).by_fields:
        return value
    view = View(dict.fromkeys(row.fields, b""), ViewOptions(images=recipe.images, captions=recipe.captions))
    return guarded(partial(plain_value, score, value), view)
