"""Stages that select samples, by a predicate or at random, and shuffle them in a bounded buffer."""

import math
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from random import Random
from types import FunctionType

from wdsflow.memory.sizes import parse_size
from wdsflow.memory.weigh import estimated_size
from wdsflow.text.shell import escape

from .base import Dropped, SampleStage, Stage, StageError
from .base import Sample as SampleDict


@dataclass(frozen=True)
class Select(SampleStage, name="select", read_by="fields"):
    """Keep samples for which ``predicate(sample)`` is true; others are dropped under ``reason``.

    The predicate must not change the sample, and it must be picklable: a function of a module, not
    a lambda. Its exceptions become a ``StageError``, counted by the exception's name.

    >>> from operator import itemgetter
    >>> [sample["__key__"] for sample in Select(itemgetter("good"))([{"__key__": "a", "good": 1}])]
    ['a']
    """

    predicate: Callable[[SampleDict], object]
    reason: str = "not-selected"
    # The fields that the predicate reads, for the check of a Pipeline.
    fields: str | tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(self.predicate):
            raise TypeError(
                f"Select needs a predicate to call, not {type(self.predicate).__name__}"
            )
        fields = (self.fields,) if isinstance(self.fields, str) else tuple(self.fields)
        object.__setattr__(self, "fields", fields)
        if isinstance(self.predicate, FunctionType):
            try:
                # Cheap: only the name is pickled.
                pickle.dumps(self.predicate)
            except (pickle.PicklingError, AttributeError, TypeError) as error:
                hint = "define it with def at the top of a module, from which workers can import it"
                raise ValueError(
                    f"the predicate {self.predicate.__qualname__} cannot be pickled; {hint}"
                ) from error

    def apply(self, sample: SampleDict) -> SampleDict:
        try:
            keep = bool(self.predicate(sample))
        except Exception as error:
            # An error of the user's function names the predicate and the kind of error.
            name = getattr(self.predicate, "__qualname__", None) or type(self.predicate).__name__
            text = f"the predicate {name} raised {type(error).__name__}: {escape(str(error))}"
            raise StageError(type(error).__name__, text) from error
        if not keep:
            raise Dropped(self.reason)
        return sample


@dataclass(frozen=True)
class Sample(SampleStage, name="sample"):
    """Keep a share ``rate`` of the samples, chosen by their keys.

    The choice depends only on a sample's key and ``seed``, not on its shard, the order or the
    worker. Samples that are kept at a lower rate are also kept at a higher one. Samples of the same
    key are kept or dropped together.

    >>> stage = Sample(0.25, seed=1)
    >>> sum(1 for _ in stage({"__key__": f"{number:06}"} for number in range(1000)))
    243
    """

    rate: float
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.rate <= 1:
            raise ValueError(
                f"rate={self.rate}: the share of samples to keep must be between 0 and 1"
            )

    def apply(self, sample: SampleDict) -> SampleDict:
        key = sample.get("__key__")
        if not isinstance(key, str):
            raise StageError("no-key", "it has no key to decide by")
        if uniform(self.seed, key) >= self.rate:
            raise Dropped("not-sampled")
        return sample


def uniform(seed: int, key: str, purpose: str = "") -> float:
    """Return a number in [0, 1) that depends only on the arguments.

    Each purpose has another number.

    >>> uniform(0, "000001") == uniform(0, "000001") != uniform(1, "000001")
    True
    """
    text = f"{seed}\0{purpose}\0{key}".encode(errors="surrogatepass")
    digest = blake2b(text, digest_size=8).digest()
    # The 53 bits of a float's precision: the quotient is never rounded up to 1.
    number = int.from_bytes(digest, "big") >> 11
    return number / (1 << 53)


def weighted_order(
    names: Sequence[str], weights: Sequence[float], seed: int, key: str, epoch: int
) -> list[str]:
    """Return names in a random order that depends only on the arguments.

    Those of a positive weight come first, drawn without replacement in proportion to their weights,
    then the others in the given order.
    """
    # Sorting by log(u)/w draws without replacement in
    # proportion to w: Efraimidis and Spirakis, 2006.
    drawn = {
        name: -math.log(1 - uniform(seed, key, f"{epoch} {name}")) / weight
        for name, weight in zip(names, weights, strict=True)
        if weight > 0
    }
    # Stable: the others keep their order.
    return sorted(names, key=lambda name: drawn.get(name, math.inf))


def given_weights(given: Iterable[float], length: int, what: str, of: str) -> tuple[float, ...]:
    """Return ``length`` weights, with 0 for missing ones.

    Raises ValueError for too many, negative or infinite weights. ``what`` and ``of`` describe them
    in messages.
    """
    weights = [float(weight) for weight in given]
    if len(weights) > length:
        raise ValueError(f"{what} has {len(weights)} weights for {length} {of}")
    if not all(math.isfinite(weight) and weight >= 0 for weight in weights):
        raise ValueError(f"{what} must be finite and not negative: {weights}")
    return tuple(weights + [0.0] * (length - len(weights)))


@dataclass(frozen=True)
class Shuffle(Stage, name="shuffle"):
    """Shuffle samples within a buffer that is bounded by their number and by their bytes.

    The first sample is yielded when the buffer has ``initial`` samples (by default ``size``, or as
    many as fit into ``max_bytes``); from then on the buffer grows by one for every two samples,
    until it is full. A sample of more than ``max_bytes`` is not shuffled, and noted
    ("too-large-to-shuffle"). Shuffle encoded images, not decoded ones: they are about twenty times
    smaller, so a buffer of the same size mixes that many more.

    The order depends on ``seed``, ``epoch`` and the samples;
    ``dataclasses.replace(stage, epoch=1)`` gives the next epoch.
    """

    size: int = 5000
    max_bytes: int | str = "512MiB"
    initial: int | None = None
    seed: int = 0
    epoch: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "max_bytes", parse_size(self.max_bytes))
        if self.size < 1:
            raise ValueError(f"size={self.size}: the buffer must hold at least one sample")
        if self.initial is not None and not 1 <= self.initial <= self.size:
            raise ValueError(f"initial={self.initial}: it must be between 1 and size={self.size}")

    def __call__(self, samples: Iterable[SampleDict]) -> Iterator[SampleDict]:
        counts = self.counts
        random = Random(f"{self.seed} {self.epoch}")
        initial = self.size if self.initial is None else self.initial
        most = parse_size(self.max_bytes)
        # Samples and their bytes.
        buffer: list[tuple[SampleDict, int]] = []
        buffered_bytes = 0
        grows = True
        for sample in samples:
            counts.seen += 1
            weight = estimated_size(sample)
            if weight > most:
                counts.noted["too-large-to-shuffle"] += 1
                counts.kept += 1
                yield sample
                continue
            # Make room before the sample goes in: the bound holds at all times.
            while buffer and (len(buffer) >= self.size or buffered_bytes + weight > most):
                picked, freed = _pick(buffer, random)
                buffered_bytes -= freed
                counts.kept += 1
                yield picked
            buffer.append((sample, weight))
            buffered_bytes += weight
            # Every other sample makes the buffer grow.
            grows = not grows
            if initial <= len(buffer) < self.size and grows:
                picked, freed = _pick(buffer, random)
                buffered_bytes -= freed
                counts.kept += 1
                yield picked
        while buffer:
            counts.kept += 1
            picked, _ = _pick(buffer, random)
            yield picked


def _pick(buffer: list[tuple[SampleDict, int]], random: Random) -> tuple[SampleDict, int]:
    """Remove a sample at random, and return it with its bytes."""
    # Only random() is guaranteed to give the same numbers in every version of Python.
    index = int(random.random() * len(buffer))
    buffer[index], buffer[-1] = buffer[-1], buffer[index]
    return buffer.pop()
