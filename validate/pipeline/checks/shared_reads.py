"""What several processes of a loader read together: workers of one run, or the ranks of a group."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from ..loader.loader_messages import LoaderRun
from ..values.rows import Row, identity


class SharedRead(NamedTuple):
    """What several processes read together.

    They are the workers of one run, or the ranks of a group, with a run each.
    """

    runs: Sequence[LoaderRun]
    # "with 2 workers", "on 2 ranks"
    description: str
    # Workers of all ranks.
    processes: int

    @property
    def kind(self) -> Literal["worker", "rank"]:
        """What shares the samples."""
        return "rank" if len(self.runs) > 1 else "worker"

    @property
    def rows(self) -> list[Row]:
        """The samples of all runs."""
        return [row for run in self.runs for row in run.rows]

    @property
    def complete(self) -> bool:
        """Whether all epochs ended by themselves."""
        return all(ended for run in self.runs for ended in run.complete)

    @property
    def item_sizes(self) -> list[int]:
        """Samples in each item, such as a batch."""
        return [len(item) for run in self.runs for epoch in run.epochs for item in epoch]


def most_padding(shared: SharedRead) -> int:
    """Return how many samples a sampler may add so that all ranks have as many, or leave out."""
    if shared.kind != "rank":
        return 0
    ranks = len(shared.runs)
    samples_of_ranks = {len(run.rows) for run in shared.runs}
    if len(samples_of_ranks) > 1:
        return ranks - 1
    # Equal shares, perhaps of full batches.
    return max(ranks - 1, max(shared.item_sizes, default=1) - 1)


def most_left_out(shared: SharedRead) -> int:
    """Return how many samples the processes may leave out without a fault.

    They may yield only full batches, or equal shares.
    """
    sizes = shared.item_sizes
    least = shared.processes - 1
    if not sizes or min(sizes) < max(sizes):
        return least
    return max(least, shared.processes * (max(sizes) - 1))


def streams_of(shared: SharedRead, columns: tuple[str, ...]) -> list[list[tuple[str, ...]]]:
    """Return the samples of each rank, or of each worker: workers give items in turn."""
    if shared.kind == "rank":
        return [[identity(row, columns) for row in run.rows] for run in shared.runs]
    items = [item for epoch in shared.runs[0].epochs for item in epoch]
    streams = []
    for worker in range(shared.processes):
        of_worker = items[worker :: shared.processes]
        streams.append([identity(row, columns) for item in of_worker for row in item])
    return streams
