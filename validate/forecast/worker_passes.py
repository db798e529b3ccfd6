"""What each worker of a training command gets in one pass over its shards of an epoch."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from wdsflow.readers.open_clip.arguments import Arguments
from wdsflow.readers.open_clip.versions import OpenClip33
from wdsflow.scan.evidence import ShardEvidence
from wdsflow.scan.shapes import Runs

from ..verdicts.reader_pass import PassResult, run_pass
from ..verdicts.wording import crash_text

# Shards, over all checked epochs: some seconds at most.
_VISITS = 300_000
_EPOCHS_LEAST = 3


@dataclass(frozen=True, slots=True)
class WorkerPass:
    """The samples of one worker in one pass over its shards of one epoch."""

    epoch: int
    rank: int
    worker: int
    shards: int
    # Samples as it forms them; these go through the shuffle buffer.
    raw: int
    usable: int
    # Full batches; training drops the rest of every pass.
    batches: int
    crash: str | None = None
    # Shards that were not scanned.
    unknown: int = 0


class ShardPasses:
    """The shards of a training command, each with the result of a pass over it alone.

    A pass over several is their sum, unless a sample continues in the next shard: then it is walked
    in full.
    """

    def __init__(
        self,
        reader: OpenClip33,
        shards: Sequence[ShardEvidence],
        unknown: frozenset[int] = frozenset(),
    ) -> None:
        self.reader = reader
        self.shards = shards
        # Indices of shards that may hold samples but were not scanned.
        self.unknown = unknown
        self.alone = [run_pass(reader, [shard]) for shard in shards]
        # Of each shard, the keys of its first and its last sample; None if it has none.
        self._heads: list[str | None] = []
        self._tails: list[str | None] = []
        for shard in shards:
            runs = reader.runs(shard) if reader.opens(shard) else Runs()
            self._heads.append(runs.head.key if runs.head else None)
            self._tails.append(runs.last.key if runs.last else None)

    def pass_over(self, indices: Sequence[int]) -> PassResult:
        """Return the result of one pass over these shards, in this order."""
        # Key of the open sample: OpenCLIP does not mark the end of a shard.
        tail: str | None = None
        for index in indices:
            head = self._heads[index]
            continues = head is not None and head == tail
            if continues or self.alone[index].crash is not None:
                return run_pass(self.reader, [self.shards[index] for index in indices])
            if head is not None:
                tail = self._tails[index]
        total = PassResult()
        total.formed = sum(self.alone[index].formed for index in indices)
        total.usable = sum(self.alone[index].usable for index in indices)
        return total


def epochs_to_check(epochs: int, n_shards: int) -> int:
    """Return how many epochs, from the first on, are worth computing: all if the shards are few."""
    return max(1, min(epochs, max(_EPOCHS_LEAST, _VISITS // max(1, n_shards))))


def worker_orders(
    reader: OpenClip33, count: int, arguments: Arguments, epoch: int
) -> list[list[int]]:
    """Return the indices of each worker's shards in one epoch, rank by rank, without resampling.

    With a negative seed every worker shuffles by a different seed: then only the number of shards
    is right.
    """
    return reader.items_by_worker(
        range(count), replace(arguments.options(type(reader)), epoch=epoch)
    )


def worker_passes(shards: ShardPasses, arguments: Arguments, epoch: int) -> Iterator[WorkerPass]:
    """Yield the samples of each worker in one epoch, rank by rank."""
    split = max(1, arguments.workers)
    for number, indices in enumerate(
        worker_orders(shards.reader, len(shards.shards), arguments, epoch)
    ):
        result = shards.pass_over(indices)
        crash: str | None = None
        if result.crash is not None:
            crash = crash_text(result.crash.reason, result.crash.detail)
        yield WorkerPass(
            epoch,
            rank=number // split,
            worker=number % split,
            shards=len(indices),
            raw=result.formed,
            usable=result.usable,
            batches=result.usable // arguments.batch_size,
            crash=crash,
            unknown=sum(index in shards.unknown for index in indices),
        )


def certainly_starves(shards: ShardPasses, arguments: Arguments, starved: WorkerPass) -> bool:
    """Return whether a worker certainly starves.

    It is not certain if the worker has shards that were not scanned; with a negative seed, only if
    even the best shards do not suffice.
    """
    if starved.unknown:
        return False
    if arguments.seed >= 0:
        return True
    best = sorted((alone.usable for alone in shards.alone), reverse=True)
    return sum(best[: starved.shards]) < arguments.batch_size


def least_usable(shards: ShardPasses, arguments: Arguments, epochs: int) -> int:
    """Return the fewest usable samples that a worker has in one pass of these epochs."""
    usable: list[int] = []
    for epoch in range(epochs):
        usable += [each.usable for each in worker_passes(shards, arguments, epoch)]
    return min(usable)
