"""The other end of ``Process``: works on one task after another."""

import contextlib
import os
import signal

import psutil

from .base import trouble_of
from .child_process import own_pipes, receive, send, when_gone
from .mark import Mark
from .without_pandas import leave_pandas_out


def serve(mark: int) -> None:
    """Work on tasks that come over stdin until it ends. ``mark``: a descriptor for ``Mark``."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that asked decides
    signal.signal(signal.SIGTERM, lambda *_: _end())
    tasks, answers = own_pipes()
    leave_pandas_out()
    note = Mark(mark)
    when_gone(tasks.fileno(), _end)
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            function, argument = receive(tasks)
            note.set(-1)
            try:
                answer = function(argument, note)
            except Exception as error:  # noqa: BLE001 - told to the process that asked
                answer = trouble_of(error)
            send(answers, answer)


def _end() -> None:
    """End at once, with all that was started here: nobody would write down what is done from now on."""
    with contextlib.suppress(psutil.Error):
        for each in psutil.Process().children(recursive=True):  # a command of a pipe: url may wait for its storage
            with contextlib.suppress(psutil.Error):
                each.kill()
    os._exit(1)
