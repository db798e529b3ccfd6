"""Background writes: all data is written, or the error is raised.

Data never reaches another file.
"""

import fcntl
import os
import threading
from pathlib import Path

import pytest

from wdsflow.pieces.sink import Sink

STEP = 4 << 20


def _writers() -> list[str]:
    return [
        thread.name for thread in threading.enumerate() if thread.name.startswith("wdsflow-write")
    ]


def test_all_bytes_arrive_in_order(tmp_path: Path) -> None:
    data, path = os.urandom(3 * STEP + 1000), tmp_path / "a"
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    sink = Sink(file, path)
    for start in range(0, len(data), 700_001):
        sink.add(data[start : start + 700_001])
    sink.write_rest()
    os.close(file)
    assert path.read_bytes() == data
    assert sink.size == len(data)
    assert not _writers()


def test_an_error_of_the_disk_is_raised_by_every_further_call(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)  # now each write fails
    sink = Sink(writer, tmp_path / "a")
    sink.add(bytes(STEP))
    for _ in range(3):
        with pytest.raises(BrokenPipeError, match=r"Broken pipe.*a'"):
            sink.add(bytes(STEP))
    with pytest.raises(BrokenPipeError):
        sink.write_rest()
    os.close(writer)
    assert not _writers()


def test_a_file_that_is_closed_too_early_does_not_lead_the_writer_into_another_one(
    tmp_path: Path,
) -> None:
    reader, writer = os.pipe()  # it holds less than a step: the writer waits
    sink = Sink(writer, tmp_path / "a")
    sink.add(bytes(STEP))
    os.close(writer)  # as when Ctrl-C keeps ``close`` from waiting
    other = os.open(tmp_path / "other", os.O_RDWR | os.O_CREAT)
    assert other == writer
    done: list[int] = []
    drain = threading.Thread(
        target=lambda: done.extend(iter(lambda: len(os.read(reader, 1 << 20)), 0))
    )
    drain.start()
    sink.close()
    drain.join()
    os.close(reader)
    assert sum(done) == STEP
    assert os.fstat(other).st_size == 0
    os.close(other)
    assert not _writers()


def _direct(file: int) -> bool:
    return bool(fcntl.fcntl(file, fcntl.F_GETFL) & os.O_DIRECT)


def test_full_buffers_pass_by_the_page_cache_and_the_rest_does_not(tmp_path: Path) -> None:
    path = tmp_path / "a"
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_DIRECT", 0)))
    except OSError:
        pytest.skip("this file system knows no direct writes")
    file = os.open(path, os.O_RDWR)
    sink = Sink(file, path)
    sink.add(bytes(STEP - 1))
    assert not _direct(file)
    sink.add(b"xy")
    assert _direct(file)
    sink.write_rest()  # one byte, which no disk takes directly
    assert not _direct(file)
    os.close(file)
    assert path.read_bytes() == bytes(STEP - 1) + b"xy"
