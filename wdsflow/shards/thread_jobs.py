"""Work on shards in threads, which suffice where most time goes into copying."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice
from typing import TypeVar

from wdsflow.old_objects import old_objects_kept
from wdsflow.shards.source.streams import end_commands

Job = TypeVar("Job")
Result = TypeVar("Result")
Begin = Callable[[int], Callable[[object], object] | None]
"""Called with the number of shards; its result is called after each of them."""


def run_in_threads(
    work: Sequence[Job],
    do: Callable[[Job, threading.Event], Result],
    note: Callable[[Job, Result], object],
    jobs: int,
    begin: Begin | None = None,
    give_up: Callable[[], object] | None = None,
) -> None:
    """Run jobs in threads, and call ``note`` with each job and its result as jobs end.

    ``note`` is called in this thread, also if an error ends the run.

    Args:
        work: the jobs.
        do: gets a job, and an event that is set when another job failed: then it may give up.
        note: called as jobs end.
        jobs: how many run at a time.
        begin: for a display of progress.
        give_up: called when a job failed; ends what ``do`` waits for.
    """
    step = begin(len(work)) if begin else None
    stop = threading.Event()
    threads: list[threading.Thread] = []
    at_once = max(1, min(jobs, len(work)))
    remember = lambda: threads.append(threading.current_thread())  # noqa: E731
    with (
        old_objects_kept(),
        ThreadPoolExecutor(at_once, "wdsflow-shard", remember) as pool,
    ):
        futures: dict[Future[Result], Job] = {}
        try:
            # Results that wait for ``note`` are held in memory: few jobs are ahead of it.
            waiting = iter(work)
            for job in islice(waiting, 2 * at_once):
                futures[pool.submit(do, job, stop)] = job
            while futures:
                # Ctrl-C in the moment before a wait is noticed after it: no wait is long.
                for future in wait(futures, timeout=0.5, return_when=FIRST_COMPLETED).done:
                    note(futures.pop(future), future.result())
                    for job in islice(waiting, 1):
                        futures[pool.submit(do, job, stop)] = job
                    if step:
                        step(future)
        except BaseException:
            stop.set()
            if give_up is not None:
                give_up()
            # A command may wait for its storage.
            for thread in threads:
                end_commands(thread)
            pool.shutdown(wait=True, cancel_futures=True)
            for future, job in futures.items():
                if future.done() and not future.cancelled() and future.exception() is None:
                    note(job, future.result())
            raise
