"""How a command ends when it is interrupted, or when nobody reads its output."""

import contextlib
import errno
import os
import select
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

INTERRUPTED, TERMINATED = 130, 143  # as shells report SIGINT and SIGTERM
_NOT_WRITTEN = 2
_CLOSED = 141  # as shells report SIGPIPE, which ends other programs whose output nobody reads
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


class Terminated(KeyboardInterrupt):
    """SIGTERM: a scheduler interrupts a command in the same way as Ctrl-C."""


@contextlib.contextmanager
def ending() -> Iterator[None]:
    """Run a command line: SIGTERM interrupts it, and output into a closed pipe ends it quietly.

    Raises SystemExit: 141 if standard output or error was closed before all was written, 2 if a disk is full.
    """
    if sys.stdout is None:  # closed by the shell: >&-
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 -- for as long as the process lives
    try:
        with _terminable():
            yield
    except (BrokenPipeError, SystemExit):  # typer and rich turn a broken pipe into an exit
        if _output_is_closed():
            _end(_CLOSED)
        raise
    except OSError as error:
        if error.errno not in _FULL:
            raise
        _full(error)
    finally:
        try:
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:
                    stream.flush()
        except BrokenPipeError:
            _end(_CLOSED)
        except OSError as error:
            _full(error)


def _output_is_closed() -> bool:
    """Return whether standard output or error is a pipe that nobody reads."""
    watched = select.poll()
    for stream in (sys.__stdout__, sys.__stderr__):  # typer replaces a broken one
        with contextlib.suppress(OSError, ValueError, AttributeError):
            watched.register(stream.fileno(), 0)  # type: ignore[union-attr]
    return any(event & select.POLLERR for _, event in watched.poll(0))


def _full(error: OSError) -> NoReturn:
    print(f"wdsflow: the output cannot be written: {error.strerror}", file=sys.stderr)
    _end(_NOT_WRITTEN)


def _end(status: int) -> NoReturn:
    """Exit with nothing left to write when the interpreter closes its streams."""
    for stream in (sys.__stdout__, sys.__stderr__):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())  # type: ignore[union-attr]
            os.close(nowhere)
    raise SystemExit(status) from None


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """Make SIGTERM raise Terminated in this process; it ends forked processes at once, as usual."""
    taken = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    # A rank that waits in a collective runs no handler: there SIGTERM ends the process at once.
    if not taken or int(os.environ.get("WORLD_SIZE") or 1) > 1:
        yield
        return
    signal.signal(signal.SIGTERM, _terminate)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_forget)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGTERM) is _terminate:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _terminate(_signal: int, _frame: FrameType | None) -> None:
    raise Terminated


def _forget() -> None:
    if signal.getsignal(signal.SIGTERM) is _terminate:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
