"""Pillow with its default limits and without warnings, regardless of the settings of the surrounding program."""

import os
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache

MAX_IMAGE_PIXELS = 89_478_485  # Pillow's own: it warns above, and refuses above twice as many
BOMB_PIXELS = 2 * MAX_IMAGE_PIXELS


_NEVER_OPENED = frozenset(("EPS", "IPTC"))  # by running a program (Ghostscript), or by opening their contents


@cache
def formats() -> tuple[str, ...]:
    """Return Pillow's formats that may be opened, the usual ones first."""
    from PIL import Image

    Image.init()
    usual = ("JPEG", "PNG", "WEBP", "GIF", "BMP")
    return usual + tuple(name for name in Image.ID if name not in usual and name not in _NEVER_OPENED)


class _Shared(AbstractContextManager[None]):
    """A state of the whole process that lasts from the first thread that enters to the last one that leaves.

    If each thread restored it, the last would restore the settings of the others.
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
    """Silence Pillow's warnings and reset its switches for the time of a block.

    Warnings only in the main thread: they belong to the process, and other threads may be changing their filters.
    """
    main = threading.current_thread() is threading.main_thread()
    with warnings.catch_warnings() if main else nullcontext(), _DEFAULTS:
        if main:
            warnings.simplefilter("ignore")
        yield


def silent_stderr() -> AbstractContextManager[None]:
    """Discard output of C libraries to the standard error stream: libtiff reports all damage there."""
    return _SILENCE


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
