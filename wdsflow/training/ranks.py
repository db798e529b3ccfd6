"""The ranks of a training run: their numbers, their share of the machine, and their messages."""

import os
import re
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from wdsflow.engines.site import usable_cores

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import Store

T = TypeVar("T")

# torchrun, Open MPI, MPICH and Intel MPI, MVAPICH
_RANKS_HERE = (
    "LOCAL_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "MPI_LOCALNRANKS",
    "MV2_COMM_WORLD_LOCAL_SIZE",
)
# Open MPI; MPICH and Intel MPI; srun. SLURM_NTASKS is set in batch scripts, too,
# SLURM_STEP_NUM_TASKS only by srun (srun(1)), which Open MPI's mpirun may use to start its tasks:
# so it is last.
_LAUNCHED = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)
# "8(x2),4": two nodes of 8 tasks, one of 4.
_RUN = re.compile(r"(\d+)(?:\(x(\d+)\))?")
# For one request to the store.
_ANSWER = timedelta(seconds=5)
# All ranks may start at once, on a busy machine.
_CONNECT = timedelta(seconds=60)
# Seconds; other ranks poll once a second.
_FAREWELL = 1.5


def rank_and_world() -> tuple[int, int]:
    """Return this process's rank and the number of ranks.

    They are read from the variables that OpenCLIP reads.
    """
    rank = _number(("RANK", "PMI_RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"), 0)
    world = _number(("WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE"), 1)
    return rank, world


def launcher_words() -> list[str]:
    """Return the launcher's part of a multi-rank command, as far as the environment shows it."""
    world = rank_and_world()[1]
    if world == 1:
        return []
    if "TORCHELASTIC_RUN_ID" in os.environ and os.environ.get("LOCAL_WORLD_SIZE") == str(world):
        return ["torchrun", "--nproc_per_node", str(world), "-m"]
    return ["srun", "--ntasks", str(world)] if "SLURM_PROCID" in os.environ else []


def local_ranks() -> int:
    """Return how many ranks run on this machine; 1 if unknown.

    torchrun and MPI set a variable. Under srun it is the number of tasks of this step on this node
    (srun(1), SLURM_STEP_TASKS_PER_NODE), unless a task has started torchrun or mpirun.
    """
    for name in _RANKS_HERE:
        with suppress(KeyError, ValueError):
            return max(1, int(os.environ[name]))
    node = _number(("SLURM_NODEID",), 0)
    for tasks, nodes in _RUN.findall(os.environ.get("SLURM_STEP_TASKS_PER_NODE", "")):
        node -= int(nodes or 1)
        if node < 0:
            return int(tasks) or 1
    return 1


def cores_for_rank() -> int:
    """Return the number of processors for each rank on this machine, at least 1.

    srun may have bound this task to its own processors, which it does not share with the other
    ranks.
    """
    ranks, cores = local_ranks(), usable_cores()
    if not any(name in os.environ for name in _RANKS_HERE):
        with suppress(KeyError, ValueError):
            return max(1, min(cores, int(os.environ["SLURM_CPUS_ON_NODE"]) // ranks))
    return max(1, cores // ranks)


def _number(names: Sequence[str], default: int) -> int:
    return next((int(os.environ[name]) for name in names if name in os.environ), default)


class JobRank(NamedTuple):
    """A rank and the number of ranks."""

    rank: int
    world_size: int


def current_rank(args: Namespace | None = None) -> JobRank:
    """Return this process's rank and the number of ranks.

    The sources are RANK and WORLD_SIZE, torch.distributed or OpenCLIP's arguments, in this order.

    Without ``args``, as for ``wdsflow.feed``, the last source is the launcher: mpirun or srun with
    several processes. webdataset, and so OpenCLIP's loader, ignores the arguments: under Horovod
    every rank reads all shards.
    """
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        return JobRank(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    if is_distributed():
        import torch.distributed

        return JobRank(torch.distributed.get_rank(), torch.distributed.get_world_size())
    if args is not None:
        return JobRank(int(getattr(args, "rank", 0) or 0), int(getattr(args, "world_size", 1) or 1))
    launched = (JobRank(_number((rank,), -1), _number((world,), 1)) for rank, world in _LAUNCHED)
    return next((job for job in launched if 0 <= job.rank < job.world_size > 1), JobRank(0, 1))


def is_distributed() -> bool:
    """Return whether torch.distributed connects this process with others."""
    import torch.distributed

    return bool(torch.distributed.is_available() and torch.distributed.is_initialized())


def gather_from_ranks(value: T) -> list[T]:
    """Return the values of all ranks; every rank must call it at the same step."""
    if not is_distributed():
        return [value]
    import torch.distributed

    values: list[Any] = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(values, value)
    return values


def are_connected(job_rank: JobRank) -> bool:
    """Return whether there are other ranks, and torch.distributed connects them."""
    return job_rank.world_size > 1 and is_distributed()


def is_first_rank() -> bool:
    """Return whether this is the first of connected ranks."""
    import torch.distributed

    return torch.distributed.get_rank() == 0


def run_on_first_rank(make: Callable[[], T]) -> T:
    """Return the result of ``make`` in the first of connected ranks.

    Every rank must call this function at the same step, but only the first one calls ``make``.

    It must not raise: the other ranks would wait.
    """
    import torch.distributed

    made: list[Any] = [make() if is_first_rank() else None]
    torch.distributed.broadcast_object_list(made, src=0)
    value: T = made[0]
    return value


def divide_among_ranks(
    count: int, job_rank: JobRank, work: Callable[[Iterable[int]], dict[int, T]]
) -> list[T]:
    """Return a result for each number below ``count``; connected ranks share the work.

    ``work`` returns the results of some numbers.
    """
    connected = are_connected(job_rank)
    numbers = range(job_rank.rank, count, job_rank.world_size) if connected else range(count)
    results = work(numbers)
    if connected:
        for part in gather_from_ranks(results):
            results.update(part)
    return [results[number] for number in range(count)]


def decoders_for(requested: int | None) -> int:
    """Return the number of decoding threads or processes.

    This is ``requested``; for None it is this rank's share of the processors.
    """
    return cores_for_rank() if requested is None else requested


def start_method(
    requested: Literal["auto", "processes", "threads"], *, recognised: bool
) -> str | None:
    """Return the start method of decoding processes, None for threads.

    For one of OpenCLIP's transforms (``recognised``) they are forked; "auto" follows the way
    torch's DataLoader would start its workers. Any other transform always runs in processes, with
    the default method.

    Raises ValueError if no process can be started.
    """
    import multiprocessing

    # The default is first.
    methods = multiprocessing.get_all_start_methods()
    # Without fixing it for the user.
    usual = multiprocessing.get_start_method(allow_none=True) or methods[0]
    daemon = multiprocessing.current_process().daemon
    can = not daemon and ("fork" in methods or not recognised)
    if not can and (requested == "processes" or not recognised):
        why = "this is a daemonic process" if daemon else "this system does not fork"
        hint = "iterate in the main process, as DataLoader(..., num_workers=0) does"
        if recognised:
            hint = 'decode_in="threads"'
        raise ValueError(f"samples cannot be made in processes here: {why}; {hint}")
    if not recognised:
        return usual
    forks = requested == "processes" or (requested == "auto" and usual == "fork")
    return "fork" if can and forks else None


class Board:
    """A message for all ranks, and single words, in torch.distributed's store.

    Raises RuntimeError if the store is lost.
    """

    def __init__(self, store: "Store", rank: int, world_size: int) -> None:
        self.rank, self.world_size = rank, world_size
        self._store = store
        # Otherwise the store is in rank 0's process.
        self._lasts = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"

    def post(self, message: str) -> None:
        """Write a message, unless one has been posted."""
        if not self._store.check(["message"]):
            self._store.set("message", message)
        self.acknowledge()

    def read(self) -> str | None:
        """Return the message, or None, without waiting."""
        if not self._store.check(["message"]):
            return None
        return self._store.get("message").decode(errors="replace")

    def set_word(self, name: str, value: str) -> None:
        """Write a word for the other ranks."""
        self._store.set(f"word/{name}", value)

    def wait_for_word(self, name: str, patience: timedelta) -> str:
        """Wait for a word that a rank wrote. Raises RuntimeError on timeout."""
        self._store.wait([f"word/{name}"], patience)
        return self._store.get(f"word/{name}").decode()

    def acknowledge(self) -> None:
        """Mark the message as read by this rank."""
        self._store.set(f"read/{self.rank}", "1")

    def is_read_by_all(self) -> bool:
        """Return whether all ranks have read it."""
        return self._store.check([f"read/{rank}" for rank in range(self.world_size)])

    def is_open(self) -> bool:
        """Return whether torch.distributed is still initialized.

        If not, using the store may print torch's warnings.
        """
        from torch import distributed

        return bool(distributed.is_initialized())

    def is_over(self) -> bool:
        """Return whether the store is unusable.

        Its process is ending, or torch.distributed was shut down.
        """
        if not self.is_open():
            return True
        if self._lasts or not self._store.check(["left/0"]):
            return False
        self._store.set(f"left/{self.rank}", "1")
        return True

    def announce_end(self) -> None:
        """Announce the end of this process.

        If this process holds the store, it waits until the others have noticed.
        """
        self._store.set(f"left/{self.rank}", "1")
        if self.rank == 0 and not self._lasts:
            all_left = [f"left/{rank}" for rank in range(self.world_size)]
            until = time.monotonic() + _FAREWELL
            while time.monotonic() < until and not self._store.check(all_left):
                time.sleep(0.05)


def connect_board() -> Board | None:
    """Return the board of all ranks; None if torch.distributed is not set up, or for a single rank.

    It has its own connection: a main thread that blocks in the store holds the lock of the default
    one.
    """
    if "torch" not in sys.modules:
        return None
    from torch import distributed

    if (
        not distributed.is_available()
        or not distributed.is_initialized()
        or distributed.get_world_size() == 1
    ):
        return None
    from torch.distributed.distributed_c10d import _get_default_store

    store = separate_connection(_get_default_store())
    # Some stores have no timeout.
    with suppress(RuntimeError):
        store.set_timeout(_ANSWER)
    return Board(store, distributed.get_rank(), distributed.get_world_size())


def separate_connection(store: Any) -> "Store":
    """Return the same store with a new connection, if it has one."""
    from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]  # its own docs do so

    # torchrun keeps its store when it restarts ranks.
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    prefix = f"wdsflow/{attempt}"
    # Newer torch.
    if hasattr(store, "clone"):
        return PrefixStore(prefix, store.clone())
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    if isinstance(store, TCPStore):
        store = TCPStore(
            store.host, store.port, is_master=False, timeout=_CONNECT, wait_for_workers=False
        )
    return PrefixStore(prefix, store)
