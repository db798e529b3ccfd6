"""The other end of ``Process``: works on one task after another."""

import contextlib
import signal

from .base import trouble_of
from .child_process import own_pipes, receive, send
from .site import Mark
from .without_pandas import leave_pandas_out


def serve(mark: int) -> None:
    """Work on tasks that come over stdin until it ends. ``mark``: a descriptor for ``Mark``."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that asked decides
    tasks, answers = own_pipes()
    leave_pandas_out()
    note = Mark(mark)
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            function, argument = receive(tasks)
            note.set(-1)
            try:
                answer = function(argument, note)
            except Exception as error:  # noqa: BLE001 - told to the process that asked
                answer = trouble_of(error)
            send(answers, answer)
