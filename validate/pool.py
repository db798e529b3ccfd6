"""Scans shards in several processes, and survives the death of one.

Workers are plain subprocesses, not multiprocessing: spawn would run the caller's script again where it has no
``__main__`` guard, and fork copies a process that may hold threads. A worker that dies (an image library that
crashes, the out-of-memory killer) costs its shard one retry, and is then named in the shard's evidence.
"""

import contextlib
import os
import pickle
import queue
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from .evidence import ShardEvidence, Stop
from .scan import ScanOptions, scan_shard

Progress = Callable[[ShardEvidence], None]
_SMALL = 32 << 20  # bytes in all; below it a second process costs more than it brings
_LENGTH = struct.Struct("<Q")


def scan_shards(
    urls: Sequence[str], options: ScanOptions, jobs: int | None = None, progress: Progress | None = None
) -> list[ShardEvidence]:
    """Scan shards, several at a time, and return their evidence in the order of the urls.

    Args:
        urls: shards.
        options: level and what consumers ask of contents.
        jobs: processes; None takes one for each core this process may use, 1 scans in this process.
        progress: called in this process after each shard.
    """
    jobs = min(len(urls), jobs or _jobs(urls))
    if jobs <= 1:
        return [_tell(scan_shard(url, options), progress) for url in urls]
    results: list[ShardEvidence | None] = [None] * len(urls)
    todo: queue.SimpleQueue[int] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[int, ShardEvidence] | BaseException] = queue.SimpleQueue()
    for index in range(len(urls)):
        todo.put(index)
    stop = threading.Event()
    threads = [
        threading.Thread(target=_serve, args=(urls, options, todo, done, stop), daemon=True) for _ in range(jobs)
    ]
    for thread in threads:
        thread.start()
    try:
        for _ in urls:
            item = done.get()
            if isinstance(item, BaseException):
                raise item
            results[item[0]] = _tell(item[1], progress)
    finally:
        stop.set()
    return [result for result in results if result is not None]


def _jobs(urls: Sequence[str]) -> int:
    total = 0
    for url in urls[:1000]:
        try:
            total += Path(url).stat().st_size
        except OSError:
            total += _SMALL if "://" in url else 0  # remote shards are read side by side, whatever their size
        if total > _SMALL:
            return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return 1


def _tell(shard: ShardEvidence, progress: Progress | None) -> ShardEvidence:
    if progress is not None:
        progress(shard)
    return shard


def _serve(
    urls: Sequence[str],
    options: ScanOptions,
    todo: "queue.SimpleQueue[int]",
    done: "queue.SimpleQueue[tuple[int, ShardEvidence] | BaseException]",
    stop: threading.Event,
) -> None:
    try:
        for index, shard in _work(urls, options, todo, stop):
            done.put((index, shard))
    except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
        done.put(error)


def _work(
    urls: Sequence[str], options: ScanOptions, todo: "queue.SimpleQueue[int]", stop: threading.Event
) -> Iterator[tuple[int, ShardEvidence]]:
    with contextlib.ExitStack() as stack:
        worker: subprocess.Popen[bytes] | None = None
        while not stop.is_set():
            try:
                index = todo.get_nowait()
            except queue.Empty:
                return
            for _ in range(2):
                worker = worker or stack.enter_context(_start())
                shard = _ask(worker, urls[index], options)
                if shard is not None:
                    break
                status = worker.wait()
                worker = None
            yield index, shard or _dead(urls[index], status)


@contextlib.contextmanager
def _start() -> Iterator["subprocess.Popen[bytes]"]:
    command = [sys.executable, "-c", "from wdsflow.validate.pool import worker; worker()"]
    root = str(Path(sys.modules["wdsflow"].__path__[0]).resolve().parent)
    path = os.pathsep.join(part for part in (root, os.environ.get("PYTHONPATH", "")) if part)
    worker = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path}
    )
    try:
        yield worker
    finally:
        worker.kill()
        worker.wait()
        for pipe in (worker.stdin, worker.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


def _ask(worker: "subprocess.Popen[bytes]", url: str, options: ScanOptions) -> ShardEvidence | None:
    assert worker.stdin is not None
    assert worker.stdout is not None
    try:
        _send(worker.stdin, (url, options))
        shard = _receive(worker.stdout)
    except (OSError, EOFError):
        return None
    assert isinstance(shard, ShardEvidence)
    return shard


def _dead(url: str, status: int) -> ShardEvidence:
    detail = f"the process that read this shard died twice (exit status {status})"
    return ShardEvidence(url, error="worker-died", error_detail=detail, stop=Stop("unreadable", 0, detail))


def _send(pipe: IO[bytes], value: object) -> None:
    data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    pipe.write(_LENGTH.pack(len(data)) + data)
    pipe.flush()


def _receive(pipe: IO[bytes]) -> Any:
    length = pipe.read(_LENGTH.size)
    if len(length) < _LENGTH.size:
        raise EOFError
    data = pipe.read(_LENGTH.unpack(length)[0])
    if len(data) < _LENGTH.unpack(length)[0]:
        raise EOFError  # killed while it wrote
    return pickle.loads(data)  # noqa: S301 - written by our own process


def worker() -> None:
    """Serve scans over stdin and stdout until stdin ends."""
    pipe, sys.stdout = sys.stdout.buffer, sys.stderr
    with contextlib.suppress(EOFError, KeyboardInterrupt, BrokenPipeError):
        while True:
            url, options = _receive(sys.stdin.buffer)
            _send(pipe, scan_shard(url, options))
