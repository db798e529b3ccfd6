"""Reports a stall on one rank to all ranks, and ends those that cannot end by themselves.

A rank that waits in a collective runs no Python in its main thread, so a separate thread polls.
"""

import atexit
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from wdsflow.shards.source.streams import end_commands
from wdsflow.text.shell import escape
from wdsflow.training.feed_options import FeedStopped
from wdsflow.training.ranks import Board, connect_board

from .loss_tally import log_critical, log_or_print
from .stall import StallError

if TYPE_CHECKING:
    from types import FrameType

# Seconds between two polls of the store; a longer gap means that this process was stopped.
_EVERY, _PAUSE = 1.0, 5.0
# Seconds that a rank has to end by itself.
_GRACE = 6.0
# Seconds that a failed rank waits until the others have read its message.
_HEARING = 3.0
# Of a message.
_LINES, _WIDE = 40, 1000
_WRITERS = (
    "torch.serialization",
    "safetensors.torch",
    "torch.distributed.checkpoint.state_dict_saver",
)

# Messages that this process has printed.
_shown: set[str] = set()


class Watchdog:
    """Brings a stall of one rank to all ranks.

    The rank that stalls calls ``send_failure``, or ``check`` inside ``waiting``. On the others
    ``check`` raises StallError. A rank that does not call it, because it waits in a collective,
    prints the message. After a failure all ranks have six seconds to end by themselves, or to call
    ``stop``; then their processes are ended with exit status 1, but not while they write a
    checkpoint. ``kill`` ends this rank's decoders. A process without other ranks is never ended.
    """

    def __init__(self, stall_after: float, kill: Callable[[], None] = lambda: None) -> None:
        self.stall_after, self._kill = stall_after, kill
        self._board: Board | None = None
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()
        self._abandoned = False
        self._pid = os.getpid()
        # Of the rank that failed.
        self._message: str | None = None
        # The main thread has the message.
        self._reported = False
        self._wait: tuple[float, Callable[[float], StallError]] | None = None
        # Time of the last poll.
        self._last_poll = 0.0

    def start(self) -> None:
        """Listen to the other ranks. Does nothing if already started."""
        if self._thread is not None and self._thread.is_alive():
            return
        # Forked: the connection is the parent's, and the event may be locked.
        if self._pid != os.getpid():
            self._pid, self._board, self._stopped = os.getpid(), None, threading.Event()
        self._stopped.clear()
        self._reported = False
        if self._board is None:
            try:
                self._board = connect_board()
            except RuntimeError as error:
                text = f"feed: ranks cannot report a stall to each other: {escape(str(error))}"
                log_or_print(logging.WARNING, text)
        self._thread = threading.Thread(target=self._run, name="wdsflow-watchdog", daemon=True)
        self._thread.start()
        # A daemon thread inside of torch while Python shuts down may crash it.
        atexit.register(self._leave_at_exit)

    def stop(self) -> None:
        """Stop listening. ``explain`` still knows a message that was received."""
        self._stopped.set()
        atexit.unregister(self._leave_at_exit)
        thread = self._thread
        if (
            thread is not None
            and thread is not threading.current_thread()
            and self._pid == os.getpid()
        ):
            thread.join(timeout=2)

    def abandon(self) -> None:
        """Stop listening soon. Takes no lock: garbage collection may call it anywhere."""
        self._abandoned = True
        atexit.unregister(self._leave_at_exit)

    @contextmanager
    def waiting(self, describe: Callable[[float], StallError]) -> Iterator[None]:
        """Mark a wait for a batch.

        After ``stall_after`` seconds, ``check`` raises ``describe(seconds waited)``.
        """
        self._last_poll = time.monotonic()
        self._wait = (self._last_poll, describe)
        try:
            yield
        finally:
            self._wait = None

    def restart_wait(self) -> None:
        """Restart the clock of this wait: the feed works on something other than a batch."""
        if self._wait is not None:
            self._wait = (time.monotonic(), self._wait[1])

    def check(self) -> None:
        """Raise StallError if another rank has failed or this wait has lasted too long.

        Call it while waiting.
        """
        if self._message is not None and self._pid == os.getpid():
            raise self._error_of_other_rank(self._message)
        self._exclude_suspension()
        wait = self._wait
        if wait is not None and (waited := time.monotonic() - wait[0]) >= self.stall_after:
            error = wait[1](waited)
            self.send_failure(error)
            raise error

    def send_failure(self, error: BaseException) -> None:
        """Send the reason to the other ranks; return when all have read it, or after three seconds.

        Call it before raising: this process may hold the store, and torchrun ends all ranks when
        the first one ends.
        """
        self._reported = True
        if self._pid != os.getpid() or not self._post(error):
            return
        until = time.monotonic() + _HEARING
        with suppress(RuntimeError):
            while (
                self._board is not None
                and time.monotonic() < until
                and not self._board.is_read_by_all()
            ):
                time.sleep(0.05)

    def explain(self, error: BaseException) -> StallError | None:
        """Return the message of another rank that failed, if it may have caused ``error``.

        A rank in a collective gets "Connection closed by peer" when another rank ends.
        """
        if (
            isinstance(error, FeedStopped)
            or not isinstance(error, Exception)
            or self._pid != os.getpid()
        ):
            return None
        self._listen(urgent=True)
        return None if self._message is None else self._error_of_other_rank(self._message)

    def _exclude_suspension(self) -> None:
        """Exclude from this wait the time for which this process, or its machine, was suspended."""
        now, wait = time.monotonic(), self._wait
        pause, self._last_poll = now - self._last_poll, now
        if wait is not None and pause > max(_PAUSE, self.stall_after / 2):
            self._wait = (wait[0] + pause, wait[1])

    def _leave_at_exit(self) -> None:
        self.stop()
        board = self._board
        if (
            board is not None
            and self._message is None
            and not self._reported
            and self._pid == os.getpid()
        ):
            with suppress(RuntimeError):
                if board.is_open():
                    board.announce_end()

    def _error_of_other_rank(self, message: str) -> StallError:
        self._reported = True
        self._acknowledge()
        return StallError(message)

    def _acknowledge(self) -> None:
        if self._board is not None:
            with suppress(RuntimeError):
                self._board.acknowledge()

    def _post(self, error: BaseException) -> bool:
        board = self._board
        if board is None or self._message is not None:
            return False
        reason = (
            str(error) if isinstance(error, FeedStopped) else f"{type(error).__name__}: {error}"
        )
        lines = [escape(line, _WIDE) for line in reason.splitlines()[:_LINES]]
        message = "\n".join(lines)
        try:
            board.post(
                message if message.startswith("rank ") else f"rank {board.rank} failed: {message}"
            )
        except RuntimeError:
            return False
        return True

    def _listen(self, *, urgent: bool = False) -> None:
        board = self._board
        if board is None or self._message is not None:
            return
        try:
            if urgent or board.is_open():
                self._message = board.read()
            if self._message is None and board.is_over():
                self._board = None
        except RuntimeError:
            # The rank that held the store has ended.
            self._board = None

    def _run(self) -> None:
        while not self._stopped.wait(_EVERY) and not self._abandoned:
            self._listen()
            self._exclude_suspension()
            wait = self._wait
            if self._message is not None:
                if wait is not None:
                    # The main thread will call check, which raises.
                    self._stopped.wait(_EVERY)
                self._end_process(self._message)
                return
            if self._reported:
                self._end_process("")
                return
            if (
                wait is not None
                and (waited := time.monotonic() - wait[0]) >= self.stall_after + 2 * _EVERY
            ):
                # The main thread hangs without calling check.
                error = wait[1](waited)
                self._post(error)
                self._end_process(str(error))
                return

    def _end_process(self, message: str) -> None:
        if not self._reported:
            if message not in _shown:
                _shown.add(message)
                log_critical(message)
            self._acknowledge()
        if self._board is None or self._stopped.wait(_GRACE):
            return
        while _is_saving():
            if self._stopped.wait(_EVERY):
                return
        # Aborting the process group would be gentler, but gloo ignores it, and after NCCL's abort
        # the main thread continues with garbage, perhaps into a checkpoint.
        log_critical(f"rank {self._board.rank} did not end: its process is killed now")
        end_commands()
        self._kill()
        os._exit(1)


def _is_saving() -> bool:
    """Return whether the main thread writes a checkpoint, which would be truncated."""
    frame: FrameType | None = sys._current_frames().get(threading.main_thread().ident or 0)  # noqa: SLF001 - documented
    while frame is not None:
        if frame.f_code.co_name.startswith("save") and frame.f_globals.get("__name__") in _WRITERS:
            return True
        frame = frame.f_back
    return False
