"""Take batches apart."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from .base import OnError, Sample, Stage, StageError


@dataclass(frozen=True)
class Unbatch(Stage):
    """Take batches apart into samples: what ``Batch`` put together, also where fields have become tensors since.

    A batch whose fields differ in length, or hold what cannot be divided, is an error ("ragged-batch"): its samples
    are as many as it has keys.

    >>> list(Unbatch()([{"__key__": ["a", "b"], "txt": ["a cat", "a dog"]}]))
    [{'__key__': 'a', 'txt': 'a cat'}, {'__key__': 'b', 'txt': 'a dog'}]
    """

    name: ClassVar[str] = "unbatch"

    on_error: OnError = "raise"

    def __call__(self, samples: Iterable[Sample]) -> Iterator[Sample]:
        """Yield the samples of each batch."""
        counts = self.counts
        for batch in samples:
            lengths = {name: _length(value) for name, value in batch.items()}
            count = lengths.get("__key__") or max([length or 0 for length in lengths.values()], default=0)
            counts.seen += count
            odd = {name: length for name, length in lengths.items() if length != count}
            if odd:
                counts.failed["ragged-batch"] += count
                if self.on_error == "raise":
                    found = ", ".join(
                        f"{str(name)[:60]!r} " + ("has no length" if length is None else f"has {length}")
                        for name, length in list(odd.items())[:12]
                    )
                    keys = str(batch.get("__key__"))[:120]
                    raise StageError("ragged-batch", f"{self.name}: batch {keys}: of {count} samples, {found}")
                continue
            for index in range(count):
                counts.kept += 1
                yield {name: value[index] for name, value in batch.items()}


def _length(value: Any) -> int | None:
    if isinstance(value, (str, bytes, bytearray, dict, set)):
        return None
    try:
        return len(value)
    except TypeError:  # no container, or a tensor of no dimension
        return None
