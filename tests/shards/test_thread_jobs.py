"""Threads that work on shards keep little ahead of the thread that takes their results."""

import threading
import time

from wdsflow.shards.thread_jobs import run_in_threads


def test_results_do_not_pile_up() -> None:
    begun, noted, most = 0, 0, 0
    lock = threading.Lock()

    def do(job: int, stop: threading.Event) -> int:
        nonlocal begun, most
        assert not stop.is_set()
        with lock:
            begun += 1
            most = max(most, begun - noted)
        return job

    def note(job: int, result: int) -> None:
        nonlocal noted
        assert job == result
        # Slower than the work.
        time.sleep(0.01)
        with lock:
            noted += 1

    run_in_threads(range(30), do, note, 2)
    assert noted == 30
    assert most <= 4
