"""The program ``wdsflow``: runs the command line and ends the process."""

import atexit
import contextlib
import os
import sys
import threading
from typing import NoReturn

from wdsflow.cli.shared.ending import exit_on_interrupt


def run() -> NoReturn:
    """Run the command line and end this process."""
    exit_on_interrupt()
    from wdsflow.cli.shared.without_secrets import print_exception
    from wdsflow.lazy import leave_pandas_out

    from .main import main

    # Train runs OpenCLIP's and the user's code in this process.
    if sys.argv[1:2] != ["train"]:
        leave_pandas_out()
    sys.excepthook = print_exception
    try:
        main()
        code: object = 0
    except SystemExit as error:
        code = error.code
    if isinstance(code, int | None) and "torch" in sys.modules:
        _end(code or 0)
    sys.exit(code)  # type: ignore[arg-type]


def _end(status: int) -> NoReturn:
    """End as Python does, but let the system free the memory.

    Python would search all objects for unreachable ones. With torch loaded that takes 1.5 s of CPU
    time, and many seconds after Ctrl-C on a busy machine.
    """
    # Python does the same first, and so does multiprocessing in its child processes.
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001
    atexit._run_exitfuncs()  # noqa: SLF001
    # The output is a closed pipe.
    with contextlib.suppress(OSError):
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    os._exit(status)
