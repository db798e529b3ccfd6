"""Processes that write shards together with threads of this one, where a table has many rows.

Of small files most of the time is work of Python, of which one process does a row at a time.
"""

from collections.abc import Callable, Sequence
from queue import SimpleQueue
from threading import Event, Thread
from typing import TYPE_CHECKING, TypeVar, cast

from wdsflow.engines.site import usable_cores
from wdsflow.records.shard_jobs import ProcessTask, result_of, work_in_process
from wdsflow.shards.thread_jobs import Begin, run_in_threads

from .pack_job import PackJob

if TYPE_CHECKING:
    from wdsflow.engines.worker import Worker

Result = TypeVar("Result")

# A process starts in 0.15 s, meanwhile this one reads 10,000 rows. Fewer rows than these are packed
# before it is ready.
MANY_ROWS = 2_000


class PackWorkers:
    """At most ``jobs`` threads and processes. Use as a context manager, which ends the processes.

    ``held``: descriptors of locks, which the processes hold, too: after ``kill -9`` of this process
    no other run begins before they have ended.
    """

    def __init__(self, jobs: int, held: Sequence[int] = ()) -> None:
        self._jobs, self._held = jobs, held
        self._workers: list[Worker] = []
        self._starting: list[Thread] = []
        # Who is free to write a shard: a process, or None for a thread of this one.
        self._free: SimpleQueue[Worker | None] = SimpleQueue()

    def start(self) -> None:
        """Start the processes; each becomes free when it has imported what it needs."""
        from wdsflow.engines.worker import Worker

        for _ in range(min(self._jobs, usable_cores()) - 1):
            worker = Worker(work_in_process, self._held)
            thread = Thread(
                target=self._prepare, args=(worker,), name="wdsflow-prepare", daemon=True
            )
            self._workers.append(worker)
            self._starting.append(thread)
            thread.start()

    def run(
        self,
        work: Sequence[PackJob],
        do: Callable[[PackJob, Event], Result],
        note: Callable[[PackJob, Result], object],
        jobs: int,
        begin: Begin | None = None,
    ) -> None:
        """Run jobs like ``run_in_threads``, also in free processes if there are any.

        The processes end if a job fails.
        """
        if not self._workers or not all(job.travels for job in work):
            run_in_threads(work, do, note, jobs, begin)
            return
        for _ in range(self._jobs - len(self._workers)):
            self._free.put(None)

        def do_where_free(job: PackJob, stop: Event) -> Result:
            worker = self._free.get()
            try:
                if worker is None:
                    return do(job, stop)
                return cast("Result", result_of(_answer(worker, ProcessTask(do, job)), job.target))
            finally:
                self._free.put(worker)

        run_in_threads(work, do_where_free, note, jobs, begin, give_up=self._stop)

    def _prepare(self, worker: "Worker") -> None:
        try:
            worker.work(ProcessTask(_import_only, None))
        finally:
            self._free.put(worker)

    def _stop(self) -> None:
        for worker in self._workers:
            worker.stop()

    def __enter__(self) -> "PackWorkers":  # noqa: PYI034 - Self needs Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        for thread in self._starting:
            thread.join()
        for worker in self._workers:
            worker.close()


def _answer(worker: "Worker", task: ProcessTask) -> object:
    answer = worker.work(task)
    if answer is None:
        raise InterruptedError("given up")
    return answer


def _import_only(_job: None, _stop: Event) -> bool:
    """Import this module, and with it all that a process needs."""
    return True
