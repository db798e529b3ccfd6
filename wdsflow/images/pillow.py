"""Pillow as it comes: its own limits and no warnings, whatever the program around us has set."""

import os
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

MAX_IMAGE_PIXELS = 89_478_485  # Pillow's own: it warns above, and refuses above twice as many
BOMB_PIXELS = 2 * MAX_IMAGE_PIXELS


class _Shared:
    """A state of the whole process that lasts from the first thread that enters to the last one that leaves.

    Did each thread put it back by itself, the last would put back what the others had set.
    """

    def __init__(self, state: Callable[[], AbstractContextManager[None]]) -> None:
        self._state, self._inside, self._lock = state, 0, threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._entered = self._state()
                self._entered.__enter__()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._entered.__exit__(None, None, None)


@contextmanager
def quiet() -> Iterator[None]:
    """Silence Pillow's warnings and put its switches to their defaults for a moment.

    Only the main thread's warnings: they belong to the process, and others may be changing how they are treated.
    """
    main = threading.current_thread() is threading.main_thread()
    with warnings.catch_warnings() if main else nullcontext(), _DEFAULTS:
        if main:
            warnings.simplefilter("ignore")
        yield


@contextmanager
def silent_stderr() -> Iterator[None]:
    """Send what C libraries write to the standard error stream to nowhere: libtiff reports every damage there."""
    with _SILENCE:
        yield


@contextmanager
def _defaults() -> Iterator[None]:
    from PIL import Image, ImageFile

    limit, truncated = Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES
    Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES = MAX_IMAGE_PIXELS, False
    try:
        yield
    finally:
        Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES = limit, truncated


@contextmanager
def _silence() -> Iterator[None]:
    try:
        kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    except OSError:  # no such stream, or no descriptors left
        yield
        return
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


_DEFAULTS, _SILENCE = _Shared(_defaults), _Shared(_silence)
