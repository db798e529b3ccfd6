"""Which samples a stage puts into one element: a value of an output is the same object as a value of an input."""

from collections import Counter, deque
from collections.abc import Iterator, Mapping

from .marks import is_array

# Inputs that are kept for this; a stage that combines samples usually combines neighbours.
_KEPT = 8
# Shorter bytes may be the same object in several samples.
_LEAST_LENGTH = 16


class RecentInputs:
    """The latest inputs of a stage."""

    def __init__(self) -> None:
        # The values are kept as well: otherwise another object could get their identity.
        self._inputs: deque[tuple[dict[int, object], tuple[str, str]]] = deque(maxlen=_KEPT)

    def add(self, item: object, key: str, shard: str) -> None:
        """Add an input."""
        self._inputs.append(({id(value): value for value in _values_in(item)}, (key, shard)))

    def combined_in(self, item: object) -> list[tuple[str, str]]:
        """Return key and shard of the inputs of which an output has values, except the first; each input once."""
        identities = {id(value) for value in _values_in(item)}
        holders = Counter(identity for values, _ in self._inputs for identity in values)
        # A value in several inputs, such as a mask that all samples share, belongs to none of them.
        own = {identity for identity in identities if holders[identity] == 1}
        used = [recent for recent in self._inputs if not own.isdisjoint(recent[0])]
        if len(used) <= 1:
            return []
        unused = [recent for recent in self._inputs if own.isdisjoint(recent[0])]
        self._inputs.clear()
        self._inputs.extend(unused)
        return [sample for _, sample in used[1:]]


def _values_in(item: object) -> Iterator[object]:
    """Yield the values that belong to one sample, also those of lists in an element; a text may be in several samples."""
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
