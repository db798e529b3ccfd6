"""The policy of retries, applied to functions in the place of processes."""

from collections.abc import Callable
from typing import Any

from wdsflow.engines.retries import ItemTrials
from wdsflow.memory.batching.attempt import PoisonedError


def map_with_restarts(
    call: Callable[[list[Any], list[int]], list[Any]],
    items: list[Any],
    restart: Callable[[], object],
) -> list[Any]:
    """Return what ``call(items, alone)`` returns for all items.

    Items are requested as ``RemoteModels.map`` requests them from its processes. ``restart`` is
    called after a failure.
    """
    trials: ItemTrials[Any] = ItemTrials(len(items))
    while group := trials.next():
        try:
            trials.record_outputs(
                call([items[at] for at in group], [0] if trials.runs_alone else [])
            )
        except PoisonedError as error:
            if trials.record_lost_device(error.done, error.suspects):
                raise
            restart()
    return trials.outputs()
