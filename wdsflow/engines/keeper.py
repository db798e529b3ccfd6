"""The keeper of a ``Peer``: a process that ends everything that the working process starts.

It is between the asking and the working process.

A child that calls ``setsid`` leaves the group of its parent, and one whose parent ended leaves its
tree. On Linux the keeper adopts processes whose parents end (``PR_SET_CHILD_SUBREAPER``), and so
finds all of them. It ends as the working process does, with the same status, after all others. It
kills them all on SIGTERM, and when the asking process ends.
"""

import contextlib
import ctypes
import os
import resource
import signal
import sys
import time
from typing import NoReturn

import psutil

from .messages import when_closed

# Status of a fork whose work is done; code of the user ends a process with 0.
FORK_DONE_STATUS = 113
# Of prctl.
_SET_DEATH_SIGNAL, _SET_CHILD_SUBREAPER = 1, 36
_SIGNALS = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
# Seconds that killed processes have to end: one that waits for a disk may not.
_PATIENCE = 10.0
# Seconds.
_PAUSE = 0.005
# Of one process, unless Linux is set up otherwise.
_MOST_DESCRIPTORS = 1 << 20


def become_keeper() -> None:
    """Continue in a child, which leads a session; this process becomes its keeper."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    # The program that asked may ignore it.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _prctl(_SET_CHILD_SUBREAPER, 1)
    keeper = os.getpid()
    child = os.fork()
    if child:
        _keep(child)
    os.setsid()
    _prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != keeper:
        os._exit(1)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def continue_in_forks() -> None:
    """Continue in a child, and in another one after each that ends with ``FORK_DONE_STATUS``.

    This process ends as the first child with another status does.
    """
    while child := os.fork():
        if os.waitstatus_to_exitcode(status := os.waitpid(child, 0)[1]) != FORK_DONE_STATUS:
            _end_as(status)
    # A fork does not inherit it.
    _prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)


def _keep(child: int) -> NoReturn:
    """Wait until the child ends or must end, and then end all that it started.

    Finally end as the child did.
    """
    with open(os.devnull, "r+b") as nothing:
        for fd in (1, 2):
            os.dup2(nothing.fileno(), fd)
    _close_others()
    when_closed(0, lambda: os.kill(os.getpid(), signal.SIGTERM))
    status: int | None = None
    while status is None and signal.sigwait(_SIGNALS) == signal.SIGCHLD:
        with contextlib.suppress(ChildProcessError):
            status = _reap(child)
    ends = time.monotonic() + _PATIENCE
    # It was told to end the child.
    if status is None:
        _kill_all(child, alive=True)
    # ChildProcessError: all have ended.
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < ends:
            # Reaped first: usually no child is left, and a search for descendants takes longer.
            child_status = _reap(child)
            if status is None:
                status = child_status
            _kill_all(child, alive=status is None)
            time.sleep(_PAUSE)
    _end_as(status)


def _close_others() -> None:
    """Close all but input and output: other processes wait until they are closed."""
    try:
        # The limit may be a billion, or none.
        held = [int(name) for name in os.listdir("/dev/fd")]
    except OSError:
        # A container without it.
        os.closerange(3, _MOST_DESCRIPTORS)
        return
    for fd in held:
        with contextlib.suppress(OSError):
            if fd > 2:
                os.close(fd)


def _reap(child: int) -> int | None:
    """Reap all ended processes; return the status of the child if it is one of them.

    Raises ChildProcessError if no process is left.
    """
    child_status: int | None = None
    try:
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            # Others have not ended yet.
            if not pid:
                break
            if pid == child:
                child_status = status
    except ChildProcessError:
        if child_status is None:
            raise
    return child_status


def _kill_all(child: int, *, alive: bool) -> None:
    # Otherwise its number may be another's.
    if alive:
        with contextlib.suppress(OSError):
            os.killpg(child, signal.SIGKILL)
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            process.kill()


def _end_as(status: int | None) -> NoReturn:
    if status is not None and os.WIFSIGNALED(status):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        number = os.WTERMSIG(status)
        # SIGKILL cannot be set.
        with contextlib.suppress(OSError):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
        os.kill(os.getpid(), number)
    os._exit(1 if status is None else os.WEXITSTATUS(status))


def _prctl(option: int, value: int) -> None:
    """Set a property of this process; other systems than Linux have none."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)
