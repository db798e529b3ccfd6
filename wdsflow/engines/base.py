"""Engines: tasks go in, and come out with their answers as they finish."""

import os
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar, get_args

from .mark import Mark, TaskProgress

EngineName = Literal["local", "ray"]


def check_engine(name: str, address: str | None) -> None:
    """Raise ValueError for an unknown engine, or for an address that is not used."""
    if name not in get_args(EngineName):
        raise ValueError(
            f"no engine is called {name!r}: use one of {', '.join(get_args(EngineName))}"
        )
    if address is not None and name != "ray":
        raise ValueError("an address is for the engine ray")


class Task(Protocol):
    """Work for an engine; picklable and small, because it may travel."""

    def without(self, sample: int) -> "Task":
        """Return the same task with a sample quarantined that kills processes."""


T = TypeVar("T", bound=Task)
# Of a module, so that it can be named elsewhere; never returns None.
Work = Callable[[Any, Mark], Any]


class EngineError(RuntimeError):
    """No worker can work on the rest. Finished work stays, and the rest can be resumed."""


class EnvironmentMismatchError(Exception):
    """This machine or process cannot work on any task, or would give other results.

    Raised by a task. The run ends.
    """


class WorkerFailure(NamedTuple):
    """The answer to a task that failed.

    ``errno``: that of an OSError, otherwise 0. ``trace``: the traceback.

    ``fatal``: others would fail, too. ``broken_part``: the name of the score or model that fails
    for all tasks, "" if it is not known.
    """

    text: str
    errno: int = 0
    trace: str = ""
    fatal: bool = False
    broken_part: str = ""


def failure_of(error: BaseException) -> WorkerFailure:
    """Return the report of an exception."""
    where = traceback.format_exc()
    if isinstance(error, OSError) and error.errno:
        text = f"{error.strerror}: {error.filename}" if error.filename else str(error.strerror)
        return WorkerFailure(text, error.errno, where)
    # Ours, written to be read.
    if isinstance(error, (OSError, ValueError, EnvironmentMismatchError)):
        return WorkerFailure(
            str(error) or type(error).__name__,
            0,
            where,
            fatal=isinstance(error, EnvironmentMismatchError),
            broken_part=getattr(error, "broken_part", ""),
        )
    frames = traceback.extract_tb(error.__traceback__)
    location = ""
    if frames:
        location = f" in {os.path.basename(frames[-1].filename)}, line {frames[-1].lineno}"
    return WorkerFailure(f"{type(error).__name__}: {error}{location}", 0, where)


class Engine(ABC, Generic[T]):
    """Works on tasks, several at a time, and replaces workers that die."""

    @property
    @abstractmethod
    def most_under_way(self) -> int:
        """How many tasks are worth having under way; it may change."""

    @abstractmethod
    def submit(self, task: T) -> None:
        """Take a task, without waiting for it."""

    @abstractmethod
    def next(self) -> tuple[T, Any]:
        """Wait until a task is done, and return it with its answer or WorkerFailure.

        Raises EngineError.
        """

    def under_way(self) -> "list[tuple[T, TaskProgress]] | None":
        """Return the tasks that have begun, and how much of each is done.

        None if only finished tasks are known.

        Any thread may call it until the engine is closed.
        """
        return None

    @abstractmethod
    def close(self) -> None:
        """Stop at once, and give up tasks under way."""


def work_on(engine: Engine[T], tasks: Iterable[T]) -> Generator[tuple[T, Any], None, None]:
    """Yield each task with its answer when it is done.

    At most ``engine.most_under_way`` tasks are under way.

    The engine is closed at the end of the iteration, also an early one. Raises EngineError.
    """
    waiting = 0
    try:
        for task in tasks:
            while waiting >= engine.most_under_way:
                waiting -= 1
                yield _next_answer(engine)
            engine.submit(task)
            waiting += 1
        for _ in range(waiting):
            yield _next_answer(engine)
    finally:
        engine.close()


def _next_answer(engine: Engine[T]) -> tuple[T, Any]:
    task, answer = engine.next()
    if isinstance(answer, WorkerFailure) and answer.fatal:
        raise EngineError(answer.text)
    return task, answer
