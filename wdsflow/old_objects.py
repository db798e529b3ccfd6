"""Spares the garbage collector the objects that are there before some work begins."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# Python 3.12 begins with some hundred frozen objects of its own.
_FROZEN_BY_PYTHON = 1000


@contextmanager
def old_objects_kept() -> Iterator[None]:
    """Let the garbage collector look only at objects that the block makes; afterwards at all again.

    Libraries have some 300,000 objects. To look for garbage among them takes 0.05 s each time,
    which is often where a block makes many objects. Nested blocks, and blocks in several threads,
    change nothing but the time.
    """
    # Somebody else's objects are frozen: they stay so.
    if gc.get_freeze_count() > _FROZEN_BY_PYTHON:
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
