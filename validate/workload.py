"""How much each loader worker of OpenCLIP has to do in one pass over its shards, epoch by epoch."""

import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .arguments import Arguments
from .consumers.assignment import assign, shuffled
from .consumers.open_clip_33 import OpenClip33
from .evidence import Evidence, Runs, ShardEvidence, Stop
from .passes import PassResult, run_pass
from .wording import crash_text

_VISITS = 300_000  # of shards, over all epochs that are checked: some seconds at the very most
_EPOCHS_LEAST = 3


@dataclass(frozen=True, slots=True)
class WorkerPass:
    """What one worker finds in one pass over the shards of one epoch."""

    epoch: int
    rank: int
    worker: int
    shards: int
    raw: int  # samples as it forms them; these go through the shuffle buffer
    usable: int
    batches: int  # whole ones; training drops the rest of every pass
    crash: str | None = None


class Shards:
    """The shards of a training command, each with what a pass over it alone comes to.

    A pass over several is their sum, unless a sample goes over a shard's border: then it is walked in full.
    """

    def __init__(self, consumer: OpenClip33, shards: Sequence[ShardEvidence]) -> None:
        self.consumer = consumer
        self.shards = shards
        self.alone = [run_pass(consumer, [shard]) for shard in shards]
        runs = [consumer.runs(shard) if consumer.opens(shard) else Runs() for shard in shards]
        self.heads = [each.head.key if each.head else None for each in runs]
        last = [each.tail or each.head for each in runs]
        self.tails = [run.key if run is not None else None for run in last]

    def over(self, indices: Sequence[int]) -> PassResult:
        """Return the result of one pass over these shards, in this order."""
        tail: str | None = None  # key of the sample that is still open: no OpenCLIP marks the end of a shard
        for index in indices:
            head = self.heads[index]
            if self.alone[index].crash is not None or (head is not None and head == tail):
                return run_pass(self.consumer, [self.shards[index] for index in indices])
            if head is not None:
                tail = self.tails[index]
        total = PassResult()
        total.formed = sum(self.alone[index].formed for index in indices)
        total.usable = sum(self.alone[index].usable for index in indices)
        return total


def named_shards(urls: Sequence[str] | None, evidence: Evidence) -> tuple[list[ShardEvidence], str]:
    """Return the shards as OpenCLIP lists them, and a note where they are not those that were scanned.

    A shard of the command that is not among the scanned ones counts as empty.
    """
    if urls is None:
        return list(evidence.shards), ""
    known = {_plain(shard.url): shard for shard in evidence.shards}
    found = [known.get(_plain(url)) for url in urls]
    absent = found.count(None)
    if absent == len(found):
        return list(evidence.shards), "none of the shards of --train-data was scanned: those given were taken for them"
    unread = [url for url, shard in zip(urls, found, strict=True) if shard is None and os.path.exists(url)]
    shards = [
        shard or ShardEvidence(url, error="missing", stop=Stop("unreadable"))
        for url, shard in zip(urls, found, strict=True)
    ]
    return shards, f"{len(unread):,} shards of --train-data were not scanned and count as empty" if unread else ""


def epochs_to_check(epochs: int, n_shards: int) -> int:
    """Return how many epochs, from the first on, are worth computing: all where there are few shards."""
    return max(1, min(epochs, max(_EPOCHS_LEAST, _VISITS // max(1, n_shards))))


def orders(consumer: OpenClip33, count: int, arguments: Arguments, epoch: int) -> list[list[int]]:
    """Return the indices of each worker's shards in one epoch, rank by rank, without resampling.

    With a negative seed every worker shuffles by a seed of its own: then only the number of shards is right.
    """
    order: Sequence[int] = range(count)
    if arguments.seed >= 0:
        rng = random.Random(arguments.seed + epoch)
        order = list(shuffled(order, *consumer.shuffle_buffer(), rng))
    return assign(order, arguments.world_size, arguments.workers)


def worker_passes(shards: Shards, arguments: Arguments, epoch: int) -> Iterator[WorkerPass]:
    """Yield what each worker finds in one epoch, rank by rank."""
    split = max(1, arguments.workers)
    for number, indices in enumerate(orders(shards.consumer, len(shards.shards), arguments, epoch)):
        result = shards.over(indices)
        crash = None if result.crash is None else crash_text(result.crash.reason, result.crash.detail)
        yield WorkerPass(
            epoch,
            rank=number // split,
            worker=number % split,
            shards=len(indices),
            raw=result.formed,
            usable=result.usable,
            batches=result.usable // arguments.batch_size,
            crash=crash,
        )


def certain(shards: Shards, arguments: Arguments, starved: WorkerPass) -> bool:
    """Tell whether a worker starves for certain: with a negative seed, only if the best shards would not do."""
    if arguments.seed >= 0:
        return True
    best = sorted((alone.usable for alone in shards.alone), reverse=True)
    return sum(best[: starved.shards]) < arguments.batch_size


def least_usable(shards: Shards, arguments: Arguments, epochs: int) -> int:
    """Return how many usable samples the poorest worker of all these epochs has in one pass."""
    return min(each.usable for epoch in range(epochs) for each in worker_passes(shards, arguments, epoch))


def _plain(url: str) -> str:
    return url if "://" in url or url.startswith("pipe:") else os.path.normpath(url)
