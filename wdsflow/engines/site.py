"""The paths and the version that machines share, and how many processors a process may use."""

import contextlib
import os
import platform
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from wdsflow.version import __version__

_GRANTED = Path("/sys/fs/cgroup/cpu.max")
# Seconds of a core; two processes start in 0.3.
_LONG = 0.8


def processes_are_faster(used: float, done: int, rest: int) -> bool:
    """Return whether processes would be quicker than this one with the rest.

    ``used``: seconds of a core for the first ``done`` bytes; ``rest``: the other bytes.
    """
    return used * rest > _LONG * done


def usable_cores() -> int:
    """Return how many processors this process may use, at least 1.

    A container may grant fewer than it shows.
    """
    quota = cpu_quota()
    return schedulable_cores() if quota is None else min(schedulable_cores(), max(1, int(quota)))


def default_processes(*, remote: bool) -> int:
    """Return the number of processes for shards: one per core, two if they are on a server.

    >>> default_processes(remote=True) / default_processes(remote=False)
    2.0
    """
    return usable_cores() * (2 if remote else 1)


def schedulable_cores() -> int:
    """Return how many processors this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cpu_quota() -> float | None:
    """Return how many processors the container grants; None if it grants all."""
    # "max" is not a number.
    with contextlib.suppress(OSError, ValueError, ZeroDivisionError):
        share, _, period = _GRANTED.read_text(encoding="ascii").partition(" ")
        return int(share) / int(period)
    return None


@dataclass(frozen=True)
class Site:
    """Where a run was started.

    ``shared_paths``: absolute paths that must exist. ``lock_file``: see ``hold_lock``.
    """

    shared_paths: tuple[str, ...] = ()
    lock_file: str = ""
    folder: str = field(default_factory=os.getcwd)
    version: str = __version__

    def why_unusable(self) -> str:
        """Return why this machine cannot work; "" if it can."""
        node = platform.node()
        if __version__ != self.version:
            return (
                f"wdsflow {__version__} is installed on {node}, and {self.version} where the run was started:"
                " all machines need the same"
            )
        for path in self.shared_paths:
            if not os.path.exists(path):
                return f"{node} does not see {path}: shards and output must be under a path that all machines see"
        return ""

    def start_folder(self) -> str | None:
        """Return the folder where the run was started, for relative paths, if it exists here."""
        return self.folder if os.path.isdir(self.folder) else None

    def hold_lock(self) -> list[int]:
        """Hold a shared lock on the file ``lock_file`` until this process ends.

        Returns its descriptor in a list, which is empty without ``lock_file``.

        An exclusive lock on it means that no worker is left.
        """
        if not self.lock_file:
            return []
        import fcntl

        held = os.open(self.lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        # Where no locks are, remaining workers are not detected.
        with contextlib.suppress(OSError):
            fcntl.flock(held, fcntl.LOCK_SH)
        return [held]


def first_local(paths: Iterable[str | None]) -> tuple[str, ...]:
    """Return the first of some paths that exists here, made absolute.

    Other machines must see it, too. The tuple is empty if none exists.
    """
    for path in paths:
        if path is not None and os.path.exists(path):
            return (os.path.abspath(path),)
    return ()
