"""How many processes fit into the memory."""

from wdsflow.engines.cores import usable_cores
from wdsflow.memory.sizes import format_size

BASE = 160 << 20  # bytes of a process before it sees a sample


class TooLittleMemory(ValueError):
    """Too little memory for one worker, which needs ``least`` bytes."""

    def __init__(self, memory: int, image: int, least: int) -> None:
        super().__init__(
            f"{format_size(memory)} is too little memory: a worker and one image of {format_size(image)} need"
            f" {format_size(least)}; --image-memory lowers that"
        )
        self.least = least


def share_memory(
    memory: int | None, workers: int | None, shards: int, image: int, cores: int = 0, own: int = BASE
) -> int:
    """Return the number of worker processes; 0 stays 0, which is work in this process.

    ``memory`` bounds all processes together, the caller included: it allows as many workers as can each hold an image
    of ``image`` bytes. ``cores``: those of a cluster, otherwise of this machine. ``own``: memory of a worker before its
    first sample. Raises ValueError if it is not enough for one.

    >>> share_memory(4 << 30, 16, 100, 512 << 20)
    5
    """
    cores = cores or usable_cores()
    wanted = min(cores if workers is None else workers, max(shards, 1))
    if memory is None:
        return wanted
    fits = int(memory >= BASE + image) if not wanted else max(memory - BASE, 0) // (own + image)
    if not fits:
        least = BASE + image + (own if wanted else 0)
        raise TooLittleMemory(memory, image, least)
    return min(wanted, fits)
