"""Starts runs of the user's loader as it is, each in a new process, and waits for their results."""

import socket
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from multiprocessing.connection import wait
from pathlib import Path
from typing import IO, NamedTuple, cast

from wdsflow.engines.peer import Peer
from wdsflow.engines.site import schedulable_cores
from wdsflow.shards.scratch import scratch

from ..user_code.user_process import IMPORT, exit_text
from .loader_messages import LoaderRequest, LoaderRun

# Runs at the same time, unless they are the ranks of one group.
_LEAST_THREADS, _MOST_THREADS = 2, 4
# Workers that import the user's module at the same time take so many times as long as one process.
_SLOWER_IMPORTS = 10
# Seconds that a process has to end with its own status after its line was closed.
_DEATH = 1.0
# What multiprocessing writes in a worker that imports a script
# without ``if __name__ == "__main__"``.
_NO_MAIN_GUARD = b"An attempt has been made to start a new process before"


class _Process(NamedTuple):
    """A process that runs the loader, and the file of its standard error."""

    peer: Peer
    log: IO[bytes]


class LoaderRuns:
    """Starts runs of one loader, each in a new process.

    The import of libraries takes longer than most runs. So the processes are forks of a few others,
    which have imported the libraries of the user's module, and nothing of the user. Those differ in
    the seed of hashes, as two starts do.

    Args:
        spec: ``module:object`` or ``train.py:object``.
        patience: seconds without an item after which a run hangs.
    """

    def __init__(self, spec: str, patience: float = 60.0) -> None:
        self.spec = spec
        self.patience = patience
        # None: unknown, so that the first process is not used again.
        self._libraries: tuple[str, ...] | None = None
        # Of the longest import.
        self._import_seconds = 0.0
        self._started: list[_Process] = []
        self._idle: list[_Process] = []

    def __enter__(self) -> "LoaderRuns":  # noqa: PYI034 - typing has Self from 3.11 on
        return self

    def __exit__(self, *_: object) -> None:
        for peer, log in self._started:
            peer.close()
            log.close()

    def run_ranks(self, requests: Sequence[LoaderRequest]) -> list[LoaderRun]:
        """Return the results of runs that are the ranks of one group, all at the same time."""
        port = _free_port()
        with scratch("ranks") as folder:
            of_ranks = []
            for rank, request in enumerate(requests):
                rendezvous = str(Path(folder, "meeting"))
                of_ranks.append(
                    replace(
                        request, rank=rank, ranks=len(requests), rendezvous=rendezvous, port=port
                    ),
                )
            return self._run_in_threads(of_ranks, len(requests))

    def run_all(self, requests: Sequence[LoaderRequest]) -> list[LoaderRun]:
        """Return the results of runs that are independent of each other, several at a time."""
        threads = max(_LEAST_THREADS, min(_MOST_THREADS, schedulable_cores()))
        return self._run_in_threads(requests, threads)

    def run(self, request: LoaderRequest) -> LoaderRun:
        """Return the result of a run in a new process."""
        try:
            process = self._idle.pop()
        except IndexError:
            process = self._new_process()
        process.log.seek(0)
        process.log.truncate()
        if not request.port:
            request = replace(request, port=_free_port())
        run = self._wait_for(process.peer, request)
        is_reusable = run.status in ("ended", "raised") and run.libraries == self._libraries
        if is_reusable:
            self._idle.append(process)
        else:
            exit_status = process.peer.close()
            self._libraries = self._libraries or run.libraries
            if run.status == "died":
                run.status = "raised"
                run.error = exit_text(exit_status, process.log)
        process.log.seek(0)
        run.lacks_main_guard = _NO_MAIN_GUARD in process.log.read()
        return run

    def _run_in_threads(self, requests: Sequence[LoaderRequest], threads: int) -> list[LoaderRun]:
        with ThreadPoolExecutor(threads) as pool:
            try:
                return list(pool.map(self.run, requests))
            except BaseException:
                # Ctrl-C, for instance, waits for no run.
                pool.shutdown(wait=False, cancel_futures=True)
                for peer, _ in self._started:
                    peer.end()
                raise

    def _new_process(self) -> _Process:
        libraries = self._libraries or ()
        log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the peer
        code = (
            f"from {__package__}.loader_serving import serve; serve({self.spec!r}, {libraries!r})"
        )
        process = _Process(Peer(code, stderr=log), log)
        self._started.append(process)
        return process

    def _wait_for(self, peer: Peer, request: LoaderRequest) -> LoaderRun:
        """Return the result of a run, or its progress.

        The status is "hung" after a time without progress, and "died" if the process ended before
        the run.
        """
        run = LoaderRun()
        started = time.monotonic()
        patience = max(IMPORT, self.patience)
        # Seconds more for workers that import the user's module, several at a time.
        worker_imports = 0.0
        try:
            peer.send(request)
            while wait([peer.line], patience):
                run = cast("LoaderRun", peer.receive())
                if run.status != "begun":
                    return run
                if run.step == "building":
                    self._import_seconds = max(self._import_seconds, time.monotonic() - started)
                    if request.start_method not in ("", "fork"):
                        worker_imports = _SLOWER_IMPORTS * self._import_seconds
                elif run.step != "importing":
                    patience = self.patience + worker_imports
            run.status = "hung"
        except (OSError, EOFError):
            run.status = "died"
            # A process that dies has an exit status of its own, which is reported.
            peer.ends_within(_DEATH)
        return run


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port
