"""Spares the garbage collector the objects that are there before some work begins."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

# Python 3.12 begins with some hundred frozen objects of its own.
_FROZEN_BY_PYTHON = 1000

# How many blocks are under way. Where threads count at the same time, a mistake costs time only.
_blocks = 0


@contextmanager
def old_objects_kept() -> Iterator[None]:
    """Let the garbage collector look only at objects that the block makes; afterwards at all again.

    Libraries have some 300,000 objects. To look for garbage among them takes 0.05 s each time,
    which is often where a block makes many objects. Nested blocks, and blocks in several threads,
    change nothing but the time.
    """
    global _blocks  # noqa: PLW0603 - one count a process
    # Somebody else's objects are frozen: they stay so.
    if has_frozen_objects():
        yield
        return
    _blocks += 1
    if _blocks == 1:
        gc.freeze()
    try:
        yield
    finally:
        _blocks -= 1
        if not _blocks:
            gc.unfreeze()


@cache
def has_frozen_objects() -> bool:
    """Return whether this process has frozen objects, before it first freezes some here.

    They are counted once: to count them, Python walks through all of them.
    """
    return gc.get_freeze_count() > _FROZEN_BY_PYTHON
