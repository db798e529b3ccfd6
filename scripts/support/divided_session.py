"""A pytest plugin that divides a session among forks of the process that has collected it.

To collect all tests takes as long as many of them run, so one process does it. Its forks take units
of tests from one queue, the longest first, so that all of them are busy to the end. A unit is a
file, or the tests with one mark ``xdist_group(name)``: they share something that takes long to
make.
"""

import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

import pytest

from support.huge_pages import collapse
from support.processor_seconds import unit_name

# Bytes of a number in the queue. A pipe holds 64 KiB: more units than there will be.
NUMBER = 4


class DividedSession:
    """Runs the tests of a session in forks of its process.

    Args:
        processes: how many forks.
        seconds: processor time of units, by name; those that it does not name are short.

    ``failures``: how forks have failed, a line each.
    """

    def __init__(self, processes: int, seconds: Mapping[str, float]) -> None:
        self._processes = processes
        self._seconds = seconds
        self.failures: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Fork, and run the units of tests in each fork.

        The parent process waits for the forks, and prints their output.
        """
        if session.testsfailed or session.config.option.collectonly or self._processes == 1:
            return None
        units = _units(session.items)
        units.sort(key=lambda unit: self._seconds.get(unit.name, 0.0), reverse=True)
        queue = _queue(len(units))
        # The garbage collector of a fork neither looks through what was collected nor copies it.
        gc.freeze()
        # Forks copy smaller page tables.
        collapse()
        outputs: dict[int, IO[bytes]] = {}
        for _ in range(self._processes):
            output = tempfile.TemporaryFile()  # noqa: SIM115 - the fork has it too
            process = os.fork()
            if not process:
                for other in outputs.values():
                    other.close()
                _print_into(output, session.config)
                _run(session, units, queue)
                return True
            outputs[process] = output
        os.close(queue)
        while outputs:
            process, status = os.wait()
            print_and_close(outputs.pop(process))
            if status:
                code = os.waitstatus_to_exitcode(status)
                self.failures.append(f"process {process}: pytest ended with status {code}")
        return True


class _Unit:
    """Tests that run in one process, one after the other."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.items: list[pytest.Item] = []


def print_and_close(output: IO[bytes]) -> None:
    """Print what a fork has printed."""
    with output:
        output.seek(0)
        shutil.copyfileobj(output, sys.stdout.buffer)
    sys.stdout.buffer.flush()


def redirect(output: IO[bytes]) -> None:
    """Let this process print into a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    for stream in (1, 2):
        os.dup2(output.fileno(), stream)
    output.close()


def _units(items: Sequence[pytest.Item]) -> list[_Unit]:
    units: dict[str, _Unit] = {}
    for item in items:
        name = unit_name(item)
        units.setdefault(name, _Unit(name)).items.append(item)
    return list(units.values())


def _queue(size: int) -> int:
    """Return a pipe from which processes take the numbers below ``size``, each number once."""
    reader, writer = os.pipe()
    for number in range(size):
        os.write(writer, number.to_bytes(NUMBER, "little"))
    os.close(writer)
    return reader


def _print_into(output: IO[bytes], config: pytest.Config) -> None:
    # The capture plugin has a copy of the descriptors: it starts again with the new ones.
    capture: Any = config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()
    redirect(output)
    capture.start_global_capturing()
    capture.suspend_global_capture()


def _run(session: pytest.Session, units: Sequence[_Unit], queue: int) -> None:
    """Run units until the queue is empty, as pytest's own loop does."""
    items = _items(units, queue)
    item = next(items, None)
    while item is not None:
        # Fixtures are torn down that the next test does not use.
        following = next(items, None)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        item = following


def _items(units: Sequence[_Unit], queue: int) -> Iterator[pytest.Item]:
    while number := os.read(queue, NUMBER):
        yield from units[int.from_bytes(number, "little")].items
