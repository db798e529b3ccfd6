"""Keep samples by a predicate."""

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any, ClassVar

from wdsflow.text.escape import escape

from .base import Dropped, Sample, SampleStage, StageError


@dataclass(frozen=True)
class Select(SampleStage):
    """Keep samples for which ``predicate(sample)`` is true; others are dropped under ``reason``.

    The predicate must not change the sample, and it must be picklable: a function of a module, not a lambda. What it
    raises becomes a ``StageError``, counted under the exception's name.

    >>> from operator import itemgetter
    >>> [sample["__key__"] for sample in Select(itemgetter("good"))([{"__key__": "a", "good": 1}])]
    ['a']
    """

    name: ClassVar[str] = "select"

    predicate: Callable[[Sample], Any]
    reason: str = "not-selected"
    fields: str | tuple[str, ...] = ()  # that the predicate reads, for the check of a Pipeline

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(self.predicate):
            raise TypeError(f"Select needs a predicate to call, not {type(self.predicate).__name__}")
        object.__setattr__(self, "fields", (self.fields,) if isinstance(self.fields, str) else tuple(self.fields))
        if isinstance(self.predicate, FunctionType):
            try:
                pickle.dumps(self.predicate)  # by name: costs nothing
            except (pickle.PicklingError, AttributeError, TypeError) as error:
                hint = "define it with def at the top of a module, from which workers can import it"
                raise ValueError(f"the predicate {self.predicate.__qualname__} cannot be pickled; {hint}") from error

    @property
    def reads(self) -> frozenset[str]:
        """What the predicate was said to read."""
        return frozenset(self.fields)

    def apply(self, sample: Sample) -> Sample:
        """Let a sample go for which the predicate is false."""
        try:
            wanted = bool(self.predicate(sample))
        except Exception as error:  # whatever a user's function raises gets a place and a name
            called = getattr(self.predicate, "__qualname__", None) or type(self.predicate).__name__
            text = f"the predicate {called} raised {type(error).__name__}: {escape(str(error))}"
            raise StageError(type(error).__name__, text) from error
        if not wanted:
            raise Dropped(self.reason)
        return sample
