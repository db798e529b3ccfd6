"""How the memory of a feed is divided among what is in flight."""

from typing import NamedTuple

from wdsflow.training.ranks import ranks_here

_BATCHES = 3  # one in training, one ready, one being made
_LEAST_DECODE = 64 << 20  # bytes; an image that needs more is refused
_DEFAULT = 2 << 30
_CHUNKS = 16  # a decoder, on their way: work does not pause while a batch is joined


class TooLittleMemory(ValueError):
    """Not even three batches and one image fit; ``least`` bytes are needed."""

    def __init__(self, message: str, least: int) -> None:
        super().__init__(message)
        self.least = least


class Shares(NamedTuple):
    """Bytes for decoders, for raw content that a lane's shuffling holds and for what is on its way, samples made ahead.

    Only what compressed and remote shards hold is raw content; other shards are read when a sample is made.
    """

    decode: int
    shuffle: int
    raw: int
    ahead: int


def shares(memory: int | None, *, batch: int, sample: int, made: int, decoders: int, chunk: int, lanes: int) -> Shares:
    """Divide ``memory`` bytes; None stands for as much as is sensible, at most half of this machine's share.

    ``batch``: samples of a batch. ``sample``: bytes of one in a batch. ``made``: bytes of one that waits to be joined.
    The share of shuffling does not depend on ``decoders``: the order of samples depends on it. Raises
    TooLittleMemory.
    """
    batches = _BATCHES * batch * sample
    wanted = max(2 * decoders * chunk, min(batch, _CHUNKS * decoders * chunk))
    fixed = batches + batch * made + _LEAST_DECODE
    least = fixed + decoders * chunk * made
    if memory is None:
        free = max(0, min(_DEFAULT, _half() - fixed))
        memory = max(least + wanted * made, fixed + free)
    else:
        free = max(0, memory - fixed)
    if memory < least:
        what = f"memory of {memory:,} bytes is too little: {_BATCHES} batches of {batch:,} samples take {batches:,}"
        raise TooLittleMemory(f"{what}, and all in all {least:,} are needed", least)
    shuffle, raw = free // 4, free // 4
    left = memory - least
    ahead = min(wanted, decoders * chunk + left // 4 // max(made, 1))
    left -= max(0, ahead - decoders * chunk) * made + shuffle + raw
    return Shares(_LEAST_DECODE + max(0, left), max(1 << 20, shuffle // max(1, lanes)), max(1 << 20, raw), ahead)


def _half() -> int:
    from wdsflow.memory.usage import host_memory

    return host_memory().total // 2 // ranks_here()
