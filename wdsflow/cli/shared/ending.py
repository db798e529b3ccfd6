"""Ends a command that is interrupted, or whose output is closed."""

import contextlib
import errno
import os
import select
import signal
import sys
import threading
from collections.abc import Iterator
from functools import cache
from types import FrameType
from typing import NoReturn

# As shells report SIGINT.
INTERRUPTED = 130
# From a scheduler; after a lost connection.
_ENDING = (signal.SIGTERM, signal.SIGHUP)
_NOT_WRITTEN = 2
# As shells report SIGPIPE, which ends other programs whose output is closed.
_CLOSED = 141
# Signals that ended this command.
_received: list[int] = []
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP: it interrupts a command in the same way as Ctrl-C.

    ``status`` is the exit status.
    """

    def __init__(self, number: int) -> None:
        super().__init__()
        # As shells report it.
        self.status = 128 + number


def exit_on_interrupt() -> None:
    """Let Ctrl-C end this process with one line until ``raise_on_interrupt``.

    While the process loads, no cleanup is needed.
    """
    # Background jobs of a shell ignore it.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end_at_once)


def raise_on_interrupt() -> None:
    """Let Ctrl-C raise KeyboardInterrupt again."""
    if signal.getsignal(signal.SIGINT) is _end_at_once:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end_at_once(number: int, _frame: FrameType | None) -> NoReturn:
    with contextlib.suppress(OSError):
        os.write(2, b"wdsflow: interrupted\n")
    os._exit(128 + number)


@contextlib.contextmanager
def ending() -> Iterator[None]:
    """Run a command line so that signals and closed pipes end it cleanly.

    SIGTERM and SIGHUP interrupt it. Output into a closed pipe ends it quietly.

    Raises SystemExit: 143 or 129 after these signals if output is closed, 141 if closed early, 2 if
    a disk is full.
    """
    # Closed by the shell: >&-.
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 -- until the process ends
    try:
        with _terminated_on_signals():
            yield
    except (BrokenPipeError, SystemExit):
        # click and rich turn a broken pipe into an exit.
        if _output_is_closed():
            _end(_CLOSED)
        raise
    except OSError as error:
        if error.errno not in _FULL:
            raise
        _exit_on_full_disk(error)
    finally:
        try:
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:
                    stream.flush()
        except BrokenPipeError:
            _end(_CLOSED)
        except OSError as error:
            _exit_on_full_disk(error)


def _output_is_closed() -> bool:
    """Return whether standard output or error is a pipe without a reader."""
    watched = select.poll()
    # click replaces a broken one.
    for stream in (sys.__stdout__, sys.__stderr__):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            watched.register(stream.fileno(), 0)  # type: ignore[union-attr]
    return any(event & select.POLLERR for _, event in watched.poll(0))


def _exit_on_full_disk(error: OSError) -> NoReturn:
    # Standard error may be closed, too.
    with contextlib.suppress(OSError):
        print(f"wdsflow: the output cannot be written: {error.strerror}", file=sys.stderr)
    _end(_NOT_WRITTEN)


def _end(status: int) -> NoReturn:
    """Exit with a status, or with that of an earlier signal.

    The interpreter has nothing left to write then.
    """
    for stream in (sys.__stdout__, sys.__stderr__):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())  # type: ignore[union-attr]
            os.close(nowhere)
    raise SystemExit(128 + _received[0] if _received else status) from None


@contextlib.contextmanager
def _terminated_on_signals() -> Iterator[None]:
    """Make the signals raise Terminated in this process.

    Forked processes end at once, as usual.

    A signal that the caller handles or ignores, as nohup does with SIGHUP, is left unchanged.
    """
    is_main = threading.current_thread() is threading.main_thread()
    # A rank that waits in a collective operation runs no handler: the signal must end it at once.
    if not is_main or int(os.environ.get("WORLD_SIZE") or 1) > 1:
        yield
        return
    _received.clear()
    for number in _ENDING:
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _terminate)
    _restore_signals_in_forks()
    try:
        yield
    finally:
        _restore_signals()


@cache
def _restore_signals_in_forks() -> None:
    # For the life of the process: a caller of ``main`` may run many commands.
    os.register_at_fork(after_in_child=_restore_signals)


@contextlib.contextmanager
def exit_at_once_on_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end this process without any cleanup.

    They then act as in a program that does not handle them.

    For calls of compiled code that take minutes, such as a training step: a handler would run only
    after it.
    """
    ours = [number for number in _ENDING if signal.getsignal(number) is _terminate]
    for number in ours:
        signal.signal(number, signal.SIG_DFL)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, _terminate)


def _terminate(number: int, _frame: FrameType | None) -> None:
    handled = sys.exc_info()[1]
    while handled is not None and not isinstance(handled, Terminated):
        handled = handled.__context__
    # A second signal must not interrupt the cleanup after
    # the first: shell and system may both send SIGHUP.
    if handled is None:
        _received.append(number)
        raise Terminated(number)


def _restore_signals() -> None:
    for number in _ENDING:
        if signal.getsignal(number) is _terminate:
            signal.signal(number, signal.SIG_DFL)
