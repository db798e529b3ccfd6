"""Ends a preflight that hangs, for example on a command or a server that sends nothing."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import psutil

from wdsflow.scan.evidence import ShardEvidence
from wdsflow.shards.source.streams import end_commands
from wdsflow.training.feed_options import FeedOptions
from wdsflow.training.stalls.field_fixes import rerun_command

# Checks in the time that a preflight may be idle.
_TICKS = 4
# Share of a processor's time below which a tick is idle; a progress bar takes some.
_WORK = 0.1
# Bytes read below which a tick is idle.
_BYTES = 16 << 10

# Called with a number of shards, and their name.
Begin = Callable[..., Callable[[ShardEvidence], None] | None]


class _ProcessActivity:
    """The work of this process and its children, without that of the measurement."""

    def __init__(self) -> None:
        # Bytes read for measuring.
        self._me, self._measuring = psutil.Process(), 0
        self.seconds, self.read = self._measure()

    def has_worked(self, tick: float) -> bool:
        """Return whether there was work since the last call, ``tick`` seconds ago."""
        before = self.seconds, self.read
        self.seconds, self.read = self._measure()
        return self.seconds - before[0] > _WORK * tick or abs(self.read - before[1]) > _BYTES

    def _measure(self) -> tuple[float, int]:
        start = _read(self._me)
        seconds, read = 0.0, 0
        for process in (self._me, *self._me.children(recursive=True)):
            with suppress(psutil.Error):
                # With children that have ended.
                seconds += sum(process.cpu_times()[:4])
                read += 0 if process == self._me else _read(process)
        end = _read(self._me)
        self._measuring += end - start
        return seconds - time.thread_time(), read + end - self._measuring


def _read(process: psutil.Process) -> int:
    """Return the bytes that a process has read, 0 if unknown."""
    return getattr(process.io_counters(), "read_chars", 0) if hasattr(process, "io_counters") else 0


@contextmanager
def end_if_idle(options: FeedOptions, begin: Begin, show: Callable[[str], None]) -> Iterator[Begin]:
    """Yield ``begin`` for the preflight, and end this process if it is idle.

    It ends with status 1, after a call of ``show(message)``.

    Idle means that for ``options.stall_after`` seconds no shard is finished, nothing computed and
    nothing read.
    """
    total = done = 0
    over = threading.Event()

    def began(count: int, what: str = "") -> Callable[[ShardEvidence], None]:
        nonlocal total
        total, report = total + count, begin(count, what)

        def read(shard: ShardEvidence) -> None:
            nonlocal done
            done += 1
            if report is not None:
                report(shard)

        return read

    def watch() -> None:
        tick, idle = options.stall_after / _TICKS, 0
        life, before = _ProcessActivity(), done
        while not over.wait(tick):
            idle = 0 if life.has_worked(tick) or done > before else idle + 1
            before = done
            if idle == _TICKS and not over.is_set():
                nothing = f"{done:,} of {total:,} shards were read, then nothing came for {options.stall_after:g} s"
                show(_message(nothing, options))
                end_commands()
                # The main thread hangs in foreign code.
                os._exit(1)

    thread = threading.Thread(target=watch, name="wdsflow-preflight", daemon=True)
    thread.start()
    try:
        yield began
    finally:
        over.set()
        thread.join()


def _message(what: str, options: FeedOptions) -> str:
    blind = rerun_command(options, "--no-preflight")
    longer = rerun_command(options, stall_after=f"{10 * options.stall_after:g}")
    return f"preflight: {what}\nTo fix it:\n  see which shard hangs: {blind}\n  if data is slow and does come, wait longer: {longer}"
