"""Removes temporary files of a finished run: shards, ledgers, quarantine and two records of the run stay."""

from contextlib import ExitStack, suppress

from wdsflow.shards.folder_lock import Busy, Lock

from .layout import Layout


def tidy(layout: Layout) -> None:
    """Remove locks, files between two passes and empty folders, unless another run or slice still works there."""
    inside = layout.inside
    with ExitStack() as stack:
        try:
            held = stack.enter_context(Lock(layout.lock(), patience=0))
        except (Busy, OSError):
            return
        remove_between(layout)
        for path in sorted(inside.glob("lock*")):
            if path != layout.lock():
                with suppress(Busy, OSError), Lock(path, patience=0) as lock:
                    lock.remove()
        held.remove()


def remove_between(layout: Layout) -> None:
    """Remove files between two passes, and empty folders."""
    resolved = layout.inside / "resolved"
    for path in resolved.glob("*.json"):
        path.unlink()
    for folder in (layout.spool, resolved, layout.waiting, layout.inside / "quarantine", layout.inside / "ledger"):
        with suppress(OSError):  # missing, or not empty
            folder.rmdir()
