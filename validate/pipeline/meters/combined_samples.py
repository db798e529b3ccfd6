"""Which samples a stage combines into one element.

It shows because a value of an output is the same object as a value of an input.
"""

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ..values.marks import is_array

# Inputs that are kept for this; a stage that combines samples usually combines neighbours.
_KEPT = 8
# Shorter bytes may be the same object in several samples.
_LEAST_LENGTH = 16


class _Input(NamedTuple):
    """An input of a stage."""

    # By their identity. The values are kept as well:
    # otherwise another object could get their identity.
    values: dict[int, object]
    key: str
    shard: str


class RecentInputs:
    """The latest inputs of a stage."""

    def __init__(self) -> None:
        self._inputs: deque[_Input] = deque(maxlen=_KEPT)

    def add(self, item: object, key: str, shard: str) -> None:
        """Add an input."""
        values = {id(value): value for value in _values_in(item)}
        self._inputs.append(_Input(values, key, shard))

    def combined_in(self, item: object) -> list[tuple[str, str]]:
        """Return key and shard of the inputs whose values an output has, except the first.

        Each input is returned once.
        """
        identities = {id(value) for value in _values_in(item)}
        # A value in several inputs, such as a mask that all samples share, belongs to none of them.
        inputs_with = Counter(identity for kept in self._inputs for identity in kept.values)
        of_one_input = {identity for identity in identities if inputs_with[identity] == 1}
        used: list[_Input] = []
        unused: list[_Input] = []
        for kept in self._inputs:
            if of_one_input.isdisjoint(kept.values):
                unused.append(kept)
            else:
                used.append(kept)
        if len(used) <= 1:
            return []
        self._inputs.clear()
        self._inputs.extend(unused)
        return [(kept.key, kept.shard) for kept in used[1:]]


def _values_in(item: object) -> Iterator[object]:
    """Yield the values that belong to one sample, also those in lists of an element.

    Texts are left out, because a text may be in several samples.
    """
    if isinstance(item, Mapping):
        for value in item.values():
            yield from _values_in(value)
    elif isinstance(item, list | tuple):
        for value in item:
            yield from _values_in(value)
    elif isinstance(item, bytes):
        if len(item) >= _LEAST_LENGTH:
            yield item
    elif is_array(item) or hasattr(item, "tobytes"):
        yield item
