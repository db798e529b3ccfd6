"""What runs beside a test. Tests before it may have left children that have ended, and helpers of multiprocessing."""

from collections.abc import Iterable

import psutil


def living_children(known: Iterable[psutil.Process] = (), *, recursive: bool = False) -> list[psutil.Process]:
    """Return the children of this process that have not ended, but for those in ``known``."""
    children = psutil.Process().children(recursive=recursive)
    return [each for each in children if each not in set(known) and not _ended(each)]


def _ended(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
