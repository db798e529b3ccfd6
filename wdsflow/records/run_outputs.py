"""Writes the outputs of a run that do not exist yet, and records each as soon as it is finished."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path
from threading import Event
from typing import Any, Protocol, TypeVar

from wdsflow.shards.shard import Shard
from wdsflow.shards.shard_identity import input_identity
from wdsflow.shards.source.base import SourceChangedError
from wdsflow.shards.thread_jobs import Begin, run_in_threads

from .line import OneFile
from .output_record import OutputRecord
from .report import OutputsReport

F = TypeVar("F", bound=OneFile)
# run_in_threads or run_on_shards.
Runner = Callable[..., None]


class OutputJob(Protocol):
    """One output to write, to ``target``."""

    @property
    def target(self) -> Path:
        """The file."""


@dataclass(frozen=True)
class ShardJob:
    """One shard to write to ``target``."""

    url: Shard
    target: Path
    allow_pipe: bool = False


def by_input(job: ShardJob) -> dict[str, object]:
    """Return what decides an output that is made from one shard alone. Raises SourceError."""
    return {"url": job.url, "inputs": input_identity(job.url)}


Job = TypeVar("Job", bound=OutputJob)
Write = Callable[[Job, F, Event], object]
MadeFrom = Callable[[Job], dict[str, object]]


def run_outputs(
    work: Sequence[tuple[OutputRecord[F], Job]],
    write: Write[Job, F],
    made_from: MadeFrom[Job],
    report: OutputsReport[Any],
    *,
    jobs: int = 1,
    begin: Begin | None = None,
    label: Callable[[Job], str] = attrgetter("url"),
    runner: Runner = run_in_threads,
) -> list[F]:
    """Write the outputs that are not done yet, and record each as it is finished.

    Finished outputs stay recorded if an error ends the run.

    Args:
        work: all outputs, each with the record of its folder, which has begun.
        write: writes one output, whole or not at all, and fills in its line.
        made_from: returns the values that decide the bytes of an output. Raises SourceError.
        report: gets the numbers of outputs that are done already, and of those that are written
            again.
        jobs: outputs at a time.
        begin: for a display of progress.
        label: names an output in the report.
        runner: ``run_in_threads``, or ``run_on_shards`` if jobs, ``write`` and ``made_from`` can be
            pickled.

    Returns the lines of all outputs, in order. Raises OSError.
    """
    done: dict[Path, F] = {}
    records = {job.target: record for record, job in work}
    todo: list[Job] = []
    reasons: dict[Path, str] = {}
    kept = set[Path]()
    for record, job in work:
        line, reason = record.finished_line(job.target.name, partial(made_from, job))
        if line is None:
            todo.append(job)
            reasons[job.target] = reason
        else:
            line.output = str(job.target) if line.identity else None
            done[job.target] = line
    report.resumed = len(done)

    def note(job: Job, result: tuple[dict[str, object], F]) -> None:
        origin, line = result
        done[job.target] = line
        if line.output is None and origin:
            # It would be taken for the output of this run.
            job.target.unlink(missing_ok=True)
            records[job.target].lines.pop(job.target.name, None)
        elif line.output is None and job.target.exists():
            kept.add(job.target)
        if line.is_final:
            line.seal(job.target, origin)
            records[job.target].add(line)

    kind = next((record.kind for record, _ in work), OneFile)
    runner(todo, partial(write_one, kind, write, made_from), note, jobs, begin)
    report.kept = [label(job) for job in todo if job.target in kept]
    for job in todo:
        if reasons[job.target] and job.target not in kept:
            report.changed.append(f"{label(job)}: {reasons[job.target]}")
    return [done[job.target] for _, job in work]


def write_one(
    kind: type[F], write: Write[Job, F], made_from: MadeFrom[Job], job: Job, stop: Event
) -> tuple[dict[str, object], F]:
    """Write one output; return the values that decide it, and its line.

    The values are empty if the inputs could not be identified.

    They are taken before the inputs are read: if one changes later, the next run notices. Raises
    OSError.
    """
    line = kind.of(job)
    origin = dict[str, object]()
    try:
        origin = made_from(job)
        write(job, line, stop)
        if made_from(job) != origin:
            raise SourceChangedError
    except OSError as error:
        line = line.line_of_failure(error)
    line.check()
    return origin, line


def write_shards(
    record: OutputRecord[F],
    flags: Mapping[str, object],
    work: Sequence[Job],
    write: Write[Job, F],
    made_from: MadeFrom[Job],
    report: OutputsReport[Any],
    *,
    inputs: Iterable[Shard],
    restart: bool = False,
    jobs: int = 1,
    begin: Begin | None = None,
) -> None:
    """Run a command that writes one file per job into one folder.

    Covers everything from ``begin`` to ``finish`` of the folder's record.

    The arguments are those of ``OutputRecord.begin`` and ``run_outputs``, and so are the errors.
    """
    record.begin(flags, [job.target.name for job in work], inputs=inputs, restart=restart)
    report.stale_removed = record.stale
    todo = [(record, job) for job in work]
    report.shards = run_outputs(todo, write, made_from, report, jobs=jobs, begin=begin)
    record.finish()
    report.check()
