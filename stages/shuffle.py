"""Shuffle samples within a bounded buffer; chance that is the same for the same sample, whoever asks, in whatever order."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from random import Random
from typing import ClassVar

from wdsflow.memory.sizes import parse_size, weigh

from .base import Sample, Stage


def uniform(seed: int, key: str, what: str = "") -> float:
    """Return a number in [0, 1) that depends on nothing but the arguments.

    >>> uniform(0, "000001") == uniform(0, "000001") != uniform(1, "000001")
    True
    """
    text = f"{seed}\0{what}\0{key}".encode(errors="surrogatepass")
    # 53 bits: as many as a float holds, so that the quotient is never rounded up to 1.
    return (int.from_bytes(blake2b(text, digest_size=8).digest(), "big") >> 11) / (1 << 53)


@dataclass(frozen=True)
class Shuffle(Stage):
    """Shuffle samples within a buffer that is bounded by their number and by their bytes.

    The first sample comes out when ``initial`` samples are in (by default all of ``size``, or what ``max_bytes`` lets
    in); from then on the buffer grows by one for each two that go in, until it is full. A sample of more than
    ``max_bytes`` passes the buffer by and is noted ("too-large-to-shuffle"). Shuffle encoded images, not decoded ones:
    they are some twenty times smaller, so the same bytes mix that many more.

    The order depends on ``seed`` and ``epoch`` and on what comes in; ``dataclasses.replace(stage, epoch=1)`` gives the
    next one.
    """

    name: ClassVar[str] = "shuffle"

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

    def __call__(self, samples: Iterable[Sample]) -> Iterator[Sample]:
        """Yield the samples in another order."""
        counts, random = self.counts, Random(f"{self.seed} {self.epoch}")
        initial = self.size if self.initial is None else self.initial
        most = parse_size(self.max_bytes)
        buffer: list[tuple[Sample, int]] = []
        held, grows = 0, True
        for sample in samples:
            counts.seen += 1
            weight = weigh(sample)
            if weight > most:
                counts.noted["too-large-to-shuffle"] += 1
                counts.kept += 1
                yield sample
                continue
            # Room is made before the sample goes in: the bound holds at all times.
            while buffer and (len(buffer) >= self.size or held + weight > most):
                out, lighter = _pick(buffer, random)
                held -= lighter
                counts.kept += 1
                yield out
            buffer.append((sample, weight))
            held += weight
            grows = not grows
            if initial <= len(buffer) < self.size and grows:
                out, lighter = _pick(buffer, random)
                held -= lighter
                counts.kept += 1
                yield out
        while buffer:
            counts.kept += 1
            yield _pick(buffer, random)[0]


def _pick(buffer: list[tuple[Sample, int]], random: Random) -> tuple[Sample, int]:
    # Of all of Random, only random() is promised to give the same numbers under every Python.
    index = int(random.random() * len(buffer))
    buffer[index], buffer[-1] = buffer[-1], buffer[index]
    return buffer.pop()
