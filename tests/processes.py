"""Processes that run next to a test.

Earlier tests may have left children that have ended, and helpers of multiprocessing.
"""

import contextlib
import gc
import os
import subprocess
import time
from collections.abc import Iterable

import psutil

MARK = "WDSFLOW_TESTS"  # variable by which the processes of a session are known
PATIENCE = 60.0  # seconds that processes have to end after the last test
# Of multiprocessing; they end with it.
_HELPERS = (
    "multiprocessing.resource_tracker",
    "multiprocessing.forkserver",
)


def living_children(
    known: Iterable[psutil.Process] = (), *, recursive: bool = False
) -> list[psutil.Process]:
    """Return the children of this process that have not ended, but for those in ``known``."""
    children = psutil.Process().children(recursive=recursive)
    return [each for each in children if each not in set(known) and not _ended(each)]


def await_end(*processes: psutil.Process | int) -> None:
    """Wait until processes have ended, known by themselves or by their numbers; they were told to.

    Where nobody asks for the status of one that has ended, it stays a zombie: that is enough.
    """
    for each in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(each) if isinstance(each, int) else each
            while not _ended(process):
                time.sleep(0.02)


def close_what_is_left_open() -> None:
    """Close files and pipes that a reader left to the garbage collector.

    Otherwise a later test gets the warnings about them.

    webdataset reads URLs through a process of `curl`. If that is dropped before it has ended, it
    waits in a list of ``subprocess``, and the next process that is started, in whatever test,
    releases its pipe with a warning.
    """
    gc.collect()
    gc.collect()  # what ended generators have left
    unfinished = getattr(subprocess, "_active", None) or []
    for each in list(unfinished):
        each.kill()
        each.wait()
    subprocess._cleanup()  # type: ignore[attr-defined]  # there is no public way
    gc.collect()


def left_behind() -> list[psutil.Process]:
    """Return the processes that this test session started and that still run.

    Includes orphans.
    """
    found = set(psutil.Process().children(recursive=True))
    for each in psutil.process_iter(["environ"]):
        if (each.info["environ"] or {}).get(MARK) == os.environ[MARK]:
            found.add(each)
    return [each for each in found if not _ended(each) and not _is_helper(each)]


def _is_helper(process: psutil.Process) -> bool:
    try:
        return any(helper in word for word in process.cmdline() for helper in _HELPERS)
    except psutil.NoSuchProcess:
        return True


def _ended(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
