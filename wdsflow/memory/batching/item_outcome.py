"""What becomes of an item that no output can be had for, and of a device that is lost."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

OUT_OF_MEMORY = "out-of-memory"
POISONED = "poisoned-device"


@dataclass(frozen=True)
class Failure:
    """Stands where an item's output would: the item failed by itself, not for its neighbours.

    ``slug``: "out-of-memory", "poisoned-device" or "raised-" and the name of the exception's class. ``detail`` may hold
    text from data: escape it where it is shown. ``numbers``: the item's cost, and bytes of memory by name.
    """

    slug: str
    detail: str
    numbers: Mapping[str, int] = field(default_factory=dict, hash=False)


class OutputsError(ValueError):
    """``run`` returned what cannot be shared out to the items: an error of the model, not of an item."""


class PoisonedError(RuntimeError):
    """The process can no longer use its device; whoever catches this starts another process and goes on there.

    ``done`` holds what is known, by position in the items of the call. ``suspects`` are the positions of the batch that
    ran; they belong to the rest and are to be tried by themselves (``alone``). Empty where an item that was alone did
    it: its ``Failure`` is in ``done`` then. Picklable if the outputs are.
    """

    def __init__(self, message: str, done: Mapping[int, Any], suspects: tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.done = dict(done)
        self.suspects = suspects

    def __reduce__(self) -> tuple[type["PoisonedError"], tuple[str, dict[int, Any], tuple[int, ...]]]:
        return type(self), (self.message, self.done, self.suspects)
