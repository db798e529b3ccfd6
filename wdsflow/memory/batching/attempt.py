"""One attempt at a batch: its outputs or the error, and the failures of items."""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

from .exceptions import describe, drop_frames, text_of
from .memory_errors import is_out_of_memory, is_poisoned

OUT_OF_MEMORY = "out-of-memory"
POISONED = "poisoned-device"


@dataclass(frozen=True)
class Failure:
    """The result of an item that failed on its own.

    ``slug``: "out-of-memory", "poisoned-device" or "raised-" and the name of the exception's class.
    ``detail`` may contain text from data, to be escaped. ``numbers``: the item's cost, and bytes of
    memory by name.
    """

    slug: str
    detail: str
    numbers: Mapping[str, int] = field(default_factory=dict, hash=False)


class OutputsError(ValueError):
    """``run`` did not return one output per item: an error of the model, not of an item."""


class PoisonedError(RuntimeError):
    """The process can no longer use its device; another process must do the rest.

    ``done``: results by position in the items of the call. ``suspects``: positions of the batch
    that ran, to be run ``alone`` next; empty if its only item ran alone, whose ``Failure`` is in
    ``done``. Picklable if the outputs are.
    """

    def __init__(
        self, message: str, done: Mapping[int, Any], suspects: tuple[int, ...] = ()
    ) -> None:
        super().__init__(message)
        self.message = message
        self.done = dict(done)
        self.suspects = suspects

    def __reduce__(
        self,
    ) -> tuple[type["PoisonedError"], tuple[str, dict[int, Any], tuple[int, ...]]]:
        return type(self), (self.message, self.done, self.suspects)


class Device(Protocol):
    """The methods of a device that recovery needs."""

    def release(self) -> None:
        """Free cached memory. Raises if the device is lost."""

    def check(self) -> None:
        """Raise if the device is lost."""

    def memory(self) -> Mapping[str, int]:
        """Return bytes by name, "free" and "total" among them."""


class FailedAttempt(NamedTuple):
    """An exception, without its frames."""

    kind: Literal["out-of-memory", "poisoned", "raised"]
    # "raised-ValueError".
    slug: str
    # Without the class, which the slug names.
    text: str
    # With it.
    detail: str


def attempt(
    run: Callable[[Sequence[Any]], Sequence[Any]], batch: Sequence[Any]
) -> list[Any] | FailedAttempt:
    """Return the outputs of a batch, or the error if running it failed.

    Raises OutputsError if ``run`` does not return one output for each item, or raises it itself.

    When this returns, no exception is being handled and no frame of ``run`` is held: recovery can
    begin.
    """
    # Of the caller; every exception from here on has it in its chain.
    outside = sys.exc_info()[1]
    try:
        outputs: Any = run(batch)
        # An iterator computes in here, too.
        listed = list(outputs) if _is_sequence(outputs) else None
    except OutputsError:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 - one bad item must cost itself alone, whatever it raises
        failure = _failed_attempt(error, outside)
        drop_frames(error, outside)
        return failure
    if listed is None:
        kind = "None" if outputs is None else f"a {type(outputs).__name__}"
        raise OutputsError(f"run() returned {kind}; it must return a sequence of outputs in order")
    if len(listed) != len(batch):
        raise OutputsError(
            f"run() returned {len(listed):,} outputs for {len(batch):,} items; it must return one for each"
        )
    return listed


def device_error(call: Callable[[], object]) -> str | None:
    """Call ``release`` or ``check`` of a device; return the error it raised, None if it works."""
    outside = sys.exc_info()[1]
    try:
        call()
    except Exception as error:  # noqa: BLE001 - a device that cannot be freed cannot be used
        text = describe(error)
        drop_frames(error, outside)
        return text
    return None


def _is_sequence(outputs: object) -> bool:
    """Return whether something is an iterable in order, and not a text."""
    return isinstance(outputs, Iterable) and not isinstance(
        outputs, (str, bytes, Mapping, set, frozenset)
    )


def _failed_attempt(error: Exception | SystemExit, outside: BaseException | None) -> FailedAttempt:
    kind: Literal["out-of-memory", "poisoned", "raised"] = "raised"
    if is_poisoned(error, outside):
        kind = "poisoned"
    elif is_out_of_memory(error, outside):
        kind = "out-of-memory"
    return FailedAttempt(kind, f"raised-{type(error).__name__}", text_of(error), describe(error))
