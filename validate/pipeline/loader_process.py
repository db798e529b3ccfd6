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

# In place of a number of items: after the last one.
END = -1
# Of a run on several.
RANKS = 2
# Times as long as the import in one process.
_IMPORTS = 10
_NO_GUARD = b"An attempt has been made to start a new process before"
Stage = Literal["importing", "building", "state_dict", "load_state_dict", "reading"]
# An epoch, and how many items of it were handed out; END: all of them.
Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class LoaderRequest:
    """One run of a loader."""

    urls: tuple[str, ...]
    epochs: int = 1
    # The first epoch.
    first: int = 0
    # Samples of an epoch.
    most: int = 2000
    # Then the run ends after its current item.
    seconds: float = 90.0
    save_at: tuple[Place, ...] = ()
    # Loaded before the first epoch.
    state: bytes | None = None
    # Of its DataLoaders; None: as they are.
    workers: int | None = None
    # Of multiprocessing; "": the default.
    method: str = ""
    rank: int = 0
    ranks: int = 1
    # The file at which ranks meet.
    meeting: str = ""
    # At which a script's own group may meet; 0: a free one.
    port: int = 0
    # Of the samples in the shards.
    keys: frozenset[str] = frozenset()
    # The same by shard.
    shard_keys: tuple[tuple[str, ...], ...] = ()
    # No two samples have the same key.
    unique_keys: bool = False
    # Shards that have copies of one sample only.
    clones: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LoaderFacts:
    """Facts from the loader's own object."""

    kind: str = ""
    # Of its DataLoaders; None: it has none.
    workers: int | None = None
    can_have_workers: bool = False
    # Its DataLoaders choose how processes are started.
    own_method: bool = False
    # What has its state: a path, "" for the loader itself; None: nothing.
    stateful: str | None = None
    map_style: bool = False
    # Shards, until an epoch is full.
    repeats: bool = False
    # Draws shards with replacement.
    resampled: bool = False
    # "reads", "saves" ... -> line of the user.
    lines: dict[str, str] = field(default_factory=dict)
    # That the function set which makes it.
    set_globals: tuple[str, ...] = ()


class SavedState(NamedTuple):
    """A state that was taken during a run."""

    place: Place
    data: bytes


@dataclass(slots=True)
class LoaderRun:
    """The result of a run."""

    how: Literal["begun", "ended", "raised", "hung"] = "begun"
    # Where it raised or hung.
    stage: Stage = "importing"
    error: str = ""
    line: str = ""
    facts: LoaderFacts = field(default_factory=LoaderFacts)
    # The samples of each item of each epoch.
    epochs: list[list[list[Row]]] = field(default_factory=list)
    # Whether the epoch ended by itself.
    whole: list[bool] = field(default_factory=list)
    states: list[SavedState] = field(default_factory=list)
    # States that changed after they were taken.
    shared: list[Place] = field(default_factory=list)
    # What is, and why.
    unpicklable: tuple[str, ...] = ()
    # A worker imported the user's script, which started processes again.
    no_guard: bool = False
    # The shards that its main process opened.
    opened: frozenset[str] = frozenset()
    # Why torch.distributed was not initialized.
    no_group: str = ""
    # That the user's module imports.
    libraries: tuple[str, ...] = ()

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
        # Unknown: the first process is not used again.
        self._libraries: tuple[str, ...] | None = None
        # Seconds of the longest import.
        self._importing = 0.0
        # With the standard error of each.
        self._started: list[tuple[Peer, IO[bytes]]] = []
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
                except BaseException:
                    # Ctrl-C, for instance, waits for no run.
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
        # Seconds more for workers that import the user's module, several at a time.
        slow = 0.0
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
            # One that died has its own status.
            peer.ends_within(1.0)
        return found


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port
