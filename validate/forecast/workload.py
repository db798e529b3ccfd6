"""The workload of each loader worker of OpenCLIP in one pass over its shards, epoch by epoch."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from wdsflow.readers.open_clip.arguments import Arguments
from wdsflow.readers.open_clip.open_clip_33 import OpenClip33
from wdsflow.scan.evidence import Evidence, Runs, ShardEvidence, Stop
from wdsflow.shards.source.base import local_file

from ..verdicts.reader_pass import PassResult, run_pass
from ..verdicts.wording import crash_text

_VISITS = 300_000  # shards, over all checked epochs: some seconds at most
_EPOCHS_LEAST = 3


@dataclass(frozen=True, slots=True)
class WorkerPass:
    """The samples of one worker in one pass over its shards of one epoch."""

    epoch: int
    rank: int
    worker: int
    shards: int
    raw: int  # samples as it forms them; these go through the shuffle buffer
    usable: int
    batches: int  # full batches; training drops the rest of every pass
    crash: str | None = None
    unknown: int = 0  # shards that were not scanned


class Shards:
    """The shards of a training command, each with the result of a pass over it alone.

    A pass over several is their sum, unless a sample continues in the next shard: then it is walked in full.
    """

    def __init__(
        self, reader: OpenClip33, shards: Sequence[ShardEvidence], unknown: frozenset[int] = frozenset()
    ) -> None:
        self.reader = reader
        self.shards = shards
        self.unknown = unknown  # indices of shards that may hold samples but were not scanned
        self.alone = [run_pass(reader, [shard]) for shard in shards]
        runs = [reader.runs(shard) if reader.opens(shard) else Runs() for shard in shards]
        self.heads = [each.head.key if each.head else None for each in runs]
        self.tails = [each.last.key if each.last else None for each in runs]

    def over(self, indices: Sequence[int]) -> PassResult:
        """Return the result of one pass over these shards, in this order."""
        tail: str | None = None  # key of the open sample: OpenCLIP does not mark the end of a shard
        for index in indices:
            head = self.heads[index]
            if self.alone[index].crash is not None or (head is not None and head == tail):
                return run_pass(self.reader, [self.shards[index] for index in indices])
            if head is not None:
                tail = self.tails[index]
        total = PassResult()
        total.formed = sum(self.alone[index].formed for index in indices)
        total.usable = sum(self.alone[index].usable for index in indices)
        return total


class NamedShards(NamedTuple):
    """The shards of a training command, as OpenCLIP lists them."""

    shards: list[ShardEvidence]
    note: str = ""  # set if they differ from the scanned ones
    unknown: frozenset[int] = frozenset()  # indices of shards that may exist but were not scanned


def named_shards(urls: Sequence[str] | None, evidence: Evidence) -> NamedShards:
    """Return the shards that a training command names; those that were not scanned count as empty."""
    if urls is None:
        return NamedShards(list(evidence.shards))
    known = {_plain(shard.url): shard for shard in evidence.shards}
    found = [known.get(_plain(url)) for url in urls]
    if found.count(None) == len(found):
        note = "none of the shards of --train-data was scanned: the given shards were used instead"
        return NamedShards(list(evidence.shards), note)
    pairs = list(zip(urls, found, strict=True))
    shards = [shard or ShardEvidence(url, error="missing", stop=Stop("unreadable")) for url, shard in pairs]
    unknown = frozenset(place for place, (url, shard) in enumerate(pairs) if shard is None and _may_exist(url))
    what = f"{len(unknown):,} shard{'s' if len(unknown) > 1 else ''} of --train-data"
    note = f"{what} not scanned: their samples are not counted"
    return NamedShards(shards, note if unknown else "", unknown)


def epochs_to_check(epochs: int, n_shards: int) -> int:
    """Return how many epochs, from the first on, are worth computing: all if the shards are few."""
    return max(1, min(epochs, max(_EPOCHS_LEAST, _VISITS // max(1, n_shards))))


def orders(reader: OpenClip33, count: int, arguments: Arguments, epoch: int) -> list[list[int]]:
    """Return the indices of each worker's shards in one epoch, rank by rank, without resampling.

    With a negative seed every worker shuffles by a different seed: then only the number of shards is right.
    """
    return reader.assigned(range(count), replace(arguments.options(reader.name), epoch=epoch))


def worker_passes(shards: Shards, arguments: Arguments, epoch: int) -> Iterator[WorkerPass]:
    """Yield the samples of each worker in one epoch, rank by rank."""
    split = max(1, arguments.workers)
    for number, indices in enumerate(orders(shards.reader, len(shards.shards), arguments, epoch)):
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
            unknown=sum(index in shards.unknown for index in indices),
        )


def certain(shards: Shards, arguments: Arguments, starved: WorkerPass) -> bool:
    """Return whether a worker certainly starves.

    It is not certain if the worker has shards that were not scanned; with a negative seed, only if even the best shards
    do not suffice.
    """
    if starved.unknown:
        return False
    if arguments.seed >= 0:
        return True
    best = sorted((alone.usable for alone in shards.alone), reverse=True)
    return sum(best[: starved.shards]) < arguments.batch_size


def least_usable(shards: Shards, arguments: Arguments, epochs: int) -> int:
    """Return the smallest number of usable samples that a worker has in one pass of these epochs."""
    return min(each.usable for epoch in range(epochs) for each in worker_passes(shards, arguments, epoch))


def _plain(url: str) -> str:
    path = local_file(url)
    return url if path is None else os.path.normpath(path)


def _may_exist(url: str) -> bool:
    """Return whether OpenCLIP may find a shard there; for servers and commands this is unknown."""
    path = local_file(url)
    return path is None or os.path.exists(path)
