"""How the memory of a feed is divided."""

from typing import NamedTuple

from wdsflow.training.ranks import local_ranks

# One in training, one ready, one being made.
_BATCHES = 3
# Bytes; an image that needs more is refused.
_LEAST_DECODE = 64 << 20
_DEFAULT = 2 << 30
# In progress for each decoder: work does not pause while a batch is assembled.
_CHUNKS = 16
# Of raw content.
_LEAST_RAW = 1 << 20


class TooLittleFeedMemory(ValueError):
    """Three batches and one image do not fit; ``least`` bytes are needed."""

    def __init__(self, message: str, least: int) -> None:
        super().__init__(message)
        self.least = least


class MemoryShares(NamedTuple):
    """How the memory of a feed is divided, in bytes.

    ``shuffle``: raw content in the shuffle buffer of a stream. ``raw``: of samples that are being
    made. Only compressed and remote shards have raw content; other shards are read when a sample is
    made. ``ahead``: samples that are made before their batch.
    """

    decode: int
    shuffle: int
    raw: int
    ahead: int


def divide_memory(
    memory: int | None,
    *,
    batch: int,
    sample: int,
    made: int,
    decoders: int,
    chunk: int,
    streams: int,
) -> MemoryShares:
    """Divide ``memory`` bytes.

    None selects a sensible amount, at most half of this machine's share.

    ``batch``: samples of a batch. ``sample``: bytes of one in a batch. ``made``: bytes of one that
    waits for its batch. The share of shuffling does not depend on ``decoders``, because the order
    of samples depends on it. Raises TooLittleFeedMemory.
    """
    batches = _BATCHES * batch * sample
    most_ahead = max(2 * decoders * chunk, min(batch, _CHUNKS * decoders * chunk))
    fixed = batches + batch * made + _LEAST_DECODE
    least = fixed + decoders * chunk * made
    if memory is None:
        from wdsflow.memory.bounds import host_memory

        free = max(0, min(_DEFAULT, host_memory().total // 2 // local_ranks() - fixed))
        memory = max(least + most_ahead * made, fixed + free)
    else:
        free = max(0, memory - fixed)
    if memory < least:
        what = f"memory of {memory:,} bytes is too little: {_BATCHES} batches of {batch:,} samples take {batches:,}"
        raise TooLittleFeedMemory(f"{what}, and all in all {least:,} are needed", least)
    shuffle, raw = free // 4, free // 4
    remaining = memory - least
    at_least = decoders * chunk
    ahead = min(most_ahead, at_least + remaining // 4 // max(made, 1))
    remaining -= max(0, ahead - at_least) * made + shuffle + raw
    return MemoryShares(
        decode=_LEAST_DECODE + max(0, remaining),
        shuffle=max(_LEAST_RAW, shuffle // max(1, streams)),
        raw=max(_LEAST_RAW, raw),
        ahead=ahead,
    )
