"""One try at a batch: its outputs, or what went wrong, without anything that keeps the batch in memory."""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

from .item_outcome import OutputsError
from .oom import describe, drop_frames, is_out_of_memory, is_poisoned, text_of


class Device(Protocol):
    """What recovery needs of a device."""

    def release(self) -> None:
        """Give back what can be given back; raises where the device is lost."""

    def check(self) -> None:
        """Raise if the device is lost."""

    def memory(self) -> Mapping[str, int]:
        """Return bytes by name, "free" and "total" among them."""


class AttemptTrouble(NamedTuple):
    """An exception, without its frames."""

    kind: Literal["out-of-memory", "poisoned", "raised"]
    slug: str  # "raised-ValueError"
    text: str  # without the class, which the slug names
    detail: str  # with it


def attempt(run: Callable[[Sequence[Any]], Sequence[Any]], batch: Sequence[Any]) -> list[Any] | AttemptTrouble:
    """Return the outputs of a batch, or the trouble. Raises OutputsError if they are not one for each item, or ``run`` does.

    When this returns, no exception is being handled and no frame of ``run`` is held: recovery can begin.
    """
    outside = sys.exc_info()[1]  # of the caller; whatever is raised from here on has it in its chain
    try:
        outputs: Any = run(batch)
        unordered = isinstance(outputs, (str, bytes, Mapping, set, frozenset)) or not isinstance(outputs, Iterable)
        listed = None if unordered else list(outputs)
    except OutputsError:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 - one bad item must cost itself alone, whatever it raises
        trouble = _trouble(error, outside)
        drop_frames(error, outside)
        return trouble
    if listed is None:
        found = "None" if outputs is None else f"a {type(outputs).__name__}"
        raise OutputsError(f"run() returned {found}; it must return a sequence of outputs in order")
    if len(listed) != len(batch):
        raise OutputsError(
            f"run() returned {len(listed):,} outputs for {len(batch):,} items; it must return one for each"
        )
    return listed


def lost(call: Callable[[], object]) -> str | None:
    """Call ``release`` or ``check`` of a device; return what it raised, None if the device is well."""
    outside = sys.exc_info()[1]
    try:
        call()
    except Exception as error:  # noqa: BLE001 - a device that cannot be freed cannot be used
        text = describe(error)
        drop_frames(error, outside)
        return text
    return None


def _trouble(error: Exception | SystemExit, outside: BaseException | None) -> AttemptTrouble:
    kind: Literal["out-of-memory", "poisoned", "raised"] = "raised"
    if is_poisoned(error, outside):
        kind = "poisoned"
    elif is_out_of_memory(error, outside):
        kind = "out-of-memory"
    return AttemptTrouble(kind, f"raised-{type(error).__name__}", text_of(error), describe(error))
