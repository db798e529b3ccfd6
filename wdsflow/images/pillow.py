"""Pillow as readers use it: with its formats and default limits, but no warnings.

Other programs, such as Ghostscript, are not run.
"""

import os
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from io import BytesIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image

# Pillow's own: it warns above, and refuses above twice as many.
MAX_IMAGE_PIXELS = 89_478_485
BOMB_PIXELS = 2 * MAX_IMAGE_PIXELS
_USUAL = ("JPEG", "PNG", "WEBP", "GIF", "BMP")
# Pillow hands such a file to Ghostscript.
_RUNS_A_PROGRAM = "EPS"


def open_image(data: bytes) -> "Image":
    """Open an encoded image in any Pillow format, as ``PIL.Image.open`` does, without decoding it.

    Only EPS is refused. To decode, call ``load`` or ``convert`` within ``no_programs()``: a file in
    the format IPTC may hold an EPS. Raises what Pillow raises.
    """
    from PIL import Image

    return Image.open(BytesIO(data), formats=_formats())


def no_programs() -> AbstractContextManager[None]:
    """Keep Pillow from running Ghostscript inside the block.

    Pillow behaves as on a machine that has none.
    """
    return _NO_PROGRAMS


@cache
def _formats() -> tuple[str, ...]:
    """Return the formats that are opened, the usual ones first."""
    from PIL import Image

    Image.init()
    return _USUAL + tuple(name for name in Image.ID if name not in (*_USUAL, _RUNS_A_PROGRAM))


class _SharedState(AbstractContextManager[None]):
    """A process-wide state that is held from the first thread that enters to the last that leaves.

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
def quiet_pillow() -> Iterator[None]:
    """Silence Pillow's warnings, reset its switches, and let it run no program inside the block.

    Warnings are silenced in the main thread only: their filters belong to the process, and other
    threads may be changing them.

    Warnings only in the main thread: they belong to the process, and other threads may be changing
    their filters.
    """
    main = threading.current_thread() is threading.main_thread()
    with warnings.catch_warnings() if main else nullcontext(), _DEFAULTS, _NO_PROGRAMS:
        if main:
            warnings.simplefilter("ignore")
        yield


def silent_stderr() -> AbstractContextManager[None]:
    """Discard what C libraries write to the standard error stream.

    libtiff reports all damage there.
    """
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
def _without_ghostscript() -> Iterator[None]:
    from PIL import EpsImagePlugin

    known = EpsImagePlugin.gs_binary
    EpsImagePlugin.gs_binary = False
    try:
        yield
    finally:
        EpsImagePlugin.gs_binary = known


@contextmanager
def _silence() -> Iterator[None]:
    try:
        kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    except OSError:
        # No such stream, or no descriptors left.
        yield
        return
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


_DEFAULTS, _SILENCE, _NO_PROGRAMS = (
    _SharedState(_defaults),
    _SharedState(_silence),
    _SharedState(_without_ghostscript),
)
