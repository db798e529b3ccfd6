"""Runs of the user's loader as it is, in new processes: their requests, and what they report."""

import socket
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from multiprocessing.connection import wait
from pathlib import Path
from typing import IO, Literal, NamedTuple, cast

from wdsflow.engines.peer import Peer
from wdsflow.engines.site import shown_cores
from wdsflow.shards.scratch import scratch

from .rows import Row, identity
from .user_process import IMPORT, how_it_ended

END = -1  # in place of a number of items: after the last one
RANKS = 2  # of a run on several
_IMPORTS = 10  # times as long as the import in one process
_NO_GUARD = b"An attempt has been made to start a new process before"
Stage = Literal["importing", "building", "state_dict", "load_state_dict", "reading"]
Place = tuple[int, int]  # an epoch, and how many items of it were handed out; END: all of them


@dataclass(frozen=True, slots=True)
class LoaderRequest:
    """One run of a loader."""

    urls: tuple[str, ...]
    epochs: int = 1
    first: int = 0  # the first epoch
    most: int = 2000  # samples of an epoch
    seconds: float = 90.0  # then the run ends after its current item
    save_at: tuple[Place, ...] = ()
    state: bytes | None = None  # loaded before the first epoch
    workers: int | None = None  # of its DataLoaders; None: as they are
    method: str = ""  # of multiprocessing; "": the default
    rank: int = 0
    ranks: int = 1
    meeting: str = ""  # the file at which ranks meet
    port: int = 0  # at which a script's own group may meet; 0: a free one
    keys: frozenset[str] = frozenset()  # of the samples in the shards
    shard_keys: tuple[tuple[str, ...], ...] = ()  # the same by shard
    unique_keys: bool = False  # no two samples have the same key
    clones: tuple[str, ...] = ()  # shards that have copies of one sample only


@dataclass(frozen=True, slots=True)
class LoaderFacts:
    """Facts from the loader's own object."""

    kind: str = ""
    workers: int | None = None  # of its DataLoaders; None: it has none
    can_have_workers: bool = False
    own_method: bool = False  # its DataLoaders choose how processes are started
    stateful: str | None = None  # what has its state: a path, "" for the loader itself; None: nothing
    map_style: bool = False
    repeats: bool = False  # shards, until an epoch is full
    resampled: bool = False  # draws shards with replacement
    lines: dict[str, str] = field(default_factory=dict)  # "reads", "saves" ... -> line of the user
    set_globals: tuple[str, ...] = ()  # that the function set which makes it


class SavedState(NamedTuple):
    """A state that was taken during a run."""

    place: Place
    data: bytes


@dataclass(slots=True)
class LoaderRun:
    """The result of a run."""

    how: Literal["begun", "ended", "raised", "hung"] = "begun"
    stage: Stage = "importing"  # where it raised or hung
    error: str = ""
    line: str = ""
    facts: LoaderFacts = field(default_factory=LoaderFacts)
    epochs: list[list[list[Row]]] = field(default_factory=list)  # the samples of each item of each epoch
    whole: list[bool] = field(default_factory=list)  # whether the epoch ended by itself
    states: list[SavedState] = field(default_factory=list)
    shared: list[Place] = field(default_factory=list)  # states that changed after they were taken
    unpicklable: tuple[str, ...] = ()  # what is, and why
    no_guard: bool = False  # a worker imported the user's script, which started processes again
    opened: frozenset[str] = frozenset()  # the shards that its main process opened
    no_group: str = ""  # why torch.distributed was not initialized
    libraries: tuple[str, ...] = ()  # that the user's module imports

    @property
    def rows(self) -> list[Row]:
        """The samples of all epochs."""
        return [row for epoch in self.epochs for item in epoch for row in item]

    def ids(self, columns: Sequence[str]) -> list[list[tuple[str, ...]]]:
        """What identifies the samples of each epoch, by some columns."""
        return [[identity(row, columns) for item in epoch for row in item] for epoch in self.epochs]

    @property
    def failure(self) -> str:
        """How it failed, with the line of the user's code."""
        line = f"{self.line}: " if self.line else ""
        return f"{line}{self.error}" if self.how == "raised" else f"{self.stage} hangs"


class LoaderRuns:
    """Starts runs of one loader, each in a new process.

    The import of libraries takes longer than most runs. So the processes are forks of a few others, which have imported
    the libraries of the user's module, and nothing of the user. Those differ in the seed of hashes, as two starts do.

    Args:
        spec: ``module:object`` or ``train.py:object``.
        patience: seconds without an item after which a run hangs.
    """

    def __init__(self, spec: str, patience: float = 60.0) -> None:
        self.spec, self.patience = spec, patience
        self._libraries: tuple[str, ...] | None = None  # unknown: the first process is not used again
        self._importing = 0.0  # seconds of the longest import
        self._started: list[tuple[Peer, IO[bytes]]] = []  # with the standard error of each
        self._idle: list[tuple[Peer, IO[bytes]]] = []

    def __enter__(self) -> "LoaderRuns":  # noqa: PYI034 - typing has Self from 3.11 on
        return self

    def __exit__(self, *_: object) -> None:
        for peer, log in self._started:
            peer.close()
            log.close()

    def run_all(self, requests: Sequence[LoaderRequest], *, ranks: bool = False) -> list[LoaderRun]:
        """Return the results of runs, each in a new process; several at a time, or all, as the ranks of one group."""
        count, port = len(requests), _free_port()
        with scratch("ranks") as folder:
            if ranks:
                meeting, each = str(Path(folder, "meeting")), enumerate(requests)
                requests = [replace(one, rank=rank, ranks=count, meeting=meeting, port=port) for rank, one in each]
            with ThreadPoolExecutor(count if ranks else max(2, min(4, shown_cores()))) as pool:
                try:
                    return list(pool.map(self.run, requests))
                except BaseException:  # Ctrl-C, for instance, waits for no run
                    pool.shutdown(wait=False, cancel_futures=True)
                    for peer, _ in self._started:
                        peer.end()
                    raise

    def run(self, request: LoaderRequest) -> LoaderRun:
        """Return the result of a run in a new process."""
        try:
            peer, log = self._idle.pop()
        except IndexError:
            peer, log = self._new_peer()
        log.seek(0)
        log.truncate()
        found = self._ask(peer, request if request.port else replace(request, port=_free_port()))
        if found.how in ("begun", "hung") or found.libraries != self._libraries:
            status, self._libraries = peer.close(), self._libraries or found.libraries
            if found.how == "begun":
                found.how, found.error = "raised", how_it_ended(status, log)
        else:
            self._idle.append((peer, log))
        log.seek(0)
        found.no_guard = _NO_GUARD in log.read()
        return found

    def _new_peer(self) -> tuple[Peer, IO[bytes]]:
        log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the peer
        code = f"from {__package__}.loader_serving import serve; serve({self.spec!r}, {self._libraries or ()!r})"
        made = Peer(code, stderr=log), log
        self._started.append(made)
        return made

    def _ask(self, peer: Peer, request: LoaderRequest) -> LoaderRun:
        """Return the result of a run, or its progress: "hung" after a time without any, "begun" if the process has ended."""
        found, patience, started = LoaderRun(), max(IMPORT, self.patience), time.monotonic()
        slow = 0.0  # seconds more for workers that import the user's module, several at a time
        try:
            peer.send(request)
            while wait([peer.line], patience):
                found = cast("LoaderRun", peer.receive())
                if found.how != "begun":
                    return found
                if found.stage == "building":
                    self._importing = max(self._importing, time.monotonic() - started)
                    slow = _IMPORTS * self._importing if request.method not in ("", "fork") else 0.0
                patience = self.patience + slow if found.stage not in ("importing", "building") else patience
            found.how = "hung"
        except (OSError, EOFError):
            peer.ends_within(1.0)  # one that died has its own status
        return found


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port
