"""How the memory of a feed is divided among what is in flight."""

import os
from typing import NamedTuple

_BATCHES = 3  # one in training, one ready, one being made
_LEAST_DECODE = 64 << 20  # bytes; an image that needs more is refused
_DEFAULT = 2 << 30
_CHUNKS = 4  # a thread, on their way: work does not pause while a batch is joined


class Shares(NamedTuple):
    """Bytes for the decoders of images and for raw content held by shuffling, and samples made ahead of their batch."""

    decode: int
    shuffle: int
    ahead: int


def shares(memory: int | None, *, batch: int, sample: int, made: int, threads: int, chunk: int, lanes: int) -> Shares:
    """Divide ``memory`` bytes; None stands for as much as is sensible, at most half of this machine's share.

    ``batch``: samples of a batch. ``sample``: bytes of one in a batch. ``made``: bytes of one that waits to be joined.
    Raises ValueError where not even three batches and one image fit.
    """
    batches = _BATCHES * batch * sample
    wanted = max(2 * threads * chunk, min(batch, _CHUNKS * threads * chunk))
    least = batches + (batch + threads * chunk) * made + _LEAST_DECODE
    if memory is None:
        memory = max(least + wanted * made, min(least + _DEFAULT, _half()))
    if memory < least:
        raise ValueError(
            f"memory of {memory:,} bytes is too little: {_BATCHES} batches of {batch:,} samples take {batches:,}, "
            f"and all in all {least:,} are needed; use a smaller --batch-size or more --memory"
        )
    free = memory - least
    ahead = min(wanted, threads * chunk + free // 4 // max(made, 1))
    free -= max(0, ahead - threads * chunk) * made
    return Shares(_LEAST_DECODE + free // 2, max(1 << 20, free // 2 // max(1, lanes)), ahead)


def _half() -> int:
    import psutil

    return int(psutil.virtual_memory().total // 2 // max(1, int(os.environ.get("LOCAL_WORLD_SIZE", "1"))))
