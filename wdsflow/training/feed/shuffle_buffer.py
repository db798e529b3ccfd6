"""A shuffle buffer that fills as webdataset's does, bounded in bytes as well."""

import random
from collections.abc import Iterable, Iterator

from ..sample_tasks import SampleRef


def mixed(
    refs: Iterable[SampleRef], size: int, initial: int, rng: random.Random, most_bytes: int
) -> Iterator[SampleRef]:
    """Yield references in an order drawn by ``rng``.

    The buffer holds at most ``size`` of them, and about ``most_bytes`` bytes of content: references into local shards
    hold none. The first leaves when ``initial`` are there, or as many as fit.
    """
    waiting: list[SampleRef] = []
    held = 0
    enough = min(initial, size)
    arriving = iter(refs)
    for ref in arriving:
        waiting.append(ref)
        held += ref.held
        if len(waiting) < size and held < most_bytes:
            more = next(arriving, None)
            if more is not None:
                waiting.append(more)
                held += more.held
        while len(waiting) >= enough or held >= most_bytes:
            drawn = _draw(waiting, rng)
            held -= drawn.held
            yield drawn
            if held < most_bytes:
                break
    while waiting:
        yield _draw(waiting, rng)


def _draw(waiting: list[SampleRef], rng: random.Random) -> SampleRef:
    index = rng.randrange(len(waiting))
    waiting[index], waiting[-1] = waiting[-1], waiting[index]
    return waiting.pop()
