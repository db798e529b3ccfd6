"""Runs jobs on shards in threads or processes.

Processes are used if the work in Python takes longer than starting them.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from threading import Event
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, cast

from wdsflow.engines.site import processes_are_faster
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import SourceError, file_size
from wdsflow.shards.thread_jobs import Begin, run_in_threads

if TYPE_CHECKING:
    from wdsflow.engines.mark import Mark


class ShardWork(Protocol):
    """Work on a shard."""

    @property
    def url(self) -> Shard:
        """The shard."""


Job = TypeVar("Job", bound=ShardWork)
Result = TypeVar("Result")


class ProcessTask(NamedTuple):
    """Work on a shard for a process."""

    do: Callable[[Any, Event], Any]
    job: Any

    def without(self, _: int) -> "ProcessTask":
        """Return the same task: the position of the fault is unknown."""
        return self


def run_on_shards(
    work: Sequence[Job],
    do: Callable[[Job, Event], Result],
    note: Callable[[Job, Result], object],
    jobs: int,
    begin: Begin | None = None,
) -> None:
    """Run jobs like ``run_in_threads``, but in processes if they will take long.

    The time of the first job decides.

    Args:
        work: the jobs; they can be pickled.
        do: a function of a module, or a ``partial`` of one with arguments that can be pickled. A
            process gives it an event that is never set: it is stopped from outside.
        note: called in this thread.
        jobs: shards at a time.
        begin: for a display of progress.
    """
    step = begin(len(work)) if begin else None

    def noted(job: Job, result: Result) -> None:
        note(job, result)
        if step:
            step(job)

    first, rest = work[:jobs], work[jobs:]
    sizes = [file_size(job.url) for job in work] if jobs > 1 and len(rest) > 1 else [0]
    used = time.process_time()
    run_in_threads(first, do, noted, jobs)
    used = time.process_time() - used
    if all(sizes) and processes_are_faster(used, sum(sizes[:jobs]), sum(sizes[jobs:])):
        _run_in_processes(rest, do, noted, jobs)
    else:
        run_in_threads(rest, do, noted, jobs)


def work_in_process(task: ProcessTask, _: "Mark") -> object:
    """Do it in a worker process; an error of the system, or of a source, is an answer."""
    try:
        return task.do(task.job, Event())
    except OSError as error:
        # Others may be impossible to pickle.
        if type(error).__module__ != "builtins" and not isinstance(error, SourceError):
            raise
        return error


def result_of(answer: object, shard: object) -> object:
    """Return the answer of ``work_in_process``, or raise it if it is an error.

    ``shard``: its name for messages.
    """
    from wdsflow.engines.base import WorkerFailure

    if isinstance(answer, OSError):
        raise answer
    if isinstance(answer, WorkerFailure):
        if answer.trace:
            raise RuntimeError(answer.trace)
        raise OSError(f"{shard}: {answer.text}")
    return answer


def _run_in_processes(
    work: Sequence[Job],
    do: Callable[[Job, Event], Result],
    note: Callable[[Job, Result], object],
    jobs: int,
) -> None:
    from wdsflow.engines.base import work_on
    from wdsflow.engines.local import LocalEngine

    engine = LocalEngine[ProcessTask](work_in_process, jobs)
    with closing(work_on(engine, [ProcessTask(do, job) for job in work])) as answers:
        for task, answer in answers:
            note(task.job, cast("Result", result_of(answer, task.job.url)))
