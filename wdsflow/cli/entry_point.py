"""The program ``wdsflow``: the command line, and the end of its process."""

import atexit
import contextlib
import os
import sys
import threading
from typing import NoReturn

from .main import main


def run() -> NoReturn:
    """Run the command line and end this process."""
    try:
        main()
        code: object = 0
    except SystemExit as error:
        code = error.code
    if isinstance(code, int | None) and "torch" in sys.modules:
        _end(code or 0)
    sys.exit(code)  # type: ignore[arg-type]


def _end(status: int) -> NoReturn:
    """End as Python does, but leave the memory to the system.

    Python would look through all objects for those that nobody can reach: with torch loaded that takes 1.5 s of a
    processor, after Ctrl-C on a busy machine many seconds in which nothing seems to happen.
    """
    # What Python does first, too, and multiprocessing in its children.
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001
    atexit._run_exitfuncs()  # noqa: SLF001
    with contextlib.suppress(OSError):  # nobody reads it any more
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    os._exit(status)
