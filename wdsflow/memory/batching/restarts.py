"""Goes on in a new process where an item made a device useless to the one that ran it."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from .item_outcome import PoisonedError

_PATIENCE = 16  # restarts in a row after which the device itself is at fault


def map_with_restarts(
    call: Callable[[Sequence[Any], Collection[int]], Sequence[Any]],
    items: Sequence[Any],
    restart: Callable[[], object],
    *,
    patience: int = _PATIENCE,
) -> list[Any]:
    """Return what ``call(items, alone)`` returns for all items, in order, over as many processes as it takes.

    ``call`` runs ``BatchRunner.map`` in a process with a device and raises its PoisonedError; ``restart`` then replaces
    that process. The items of the batch that ran go last and one by one from then on, so that the next one to do it is
    known, gets its Failure and is not run again. Raises the PoisonedError if ``patience`` processes in a row got
    nothing done but failures of that kind, or if one brings nothing new.
    """
    done: dict[int, Any] = {}
    alone: set[int] = set()
    idle = 0
    while rest := [position for position in range(len(items)) if position not in done]:
        try:
            found = call([items[position] for position in rest], [at for at, p in enumerate(rest) if p in alone])
        except PoisonedError as error:
            poisoned = error
        else:
            done.update(zip(rest, found, strict=True))
            break
        news = {rest[at]: outcome for at, outcome in poisoned.done.items()}
        suspects = {rest[at] for at in poisoned.suspects} - alone
        idle = 0 if len(news) > (not poisoned.suspects) else idle + 1
        done.update(news)
        alone |= suspects
        if not (news or suspects) or idle >= patience:
            raise poisoned
        restart()
    return [done[position] for position in range(len(items))]
