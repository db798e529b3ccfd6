"""Writes the outputs of a run that do not exist yet, and reports them."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from wdsflow.shards.shard import Shard
from wdsflow.shards.shard_identity import input_identity
from wdsflow.shards.source.base import SourceChangedError
from wdsflow.shards.thread_jobs import Begin, run_in_threads
from wdsflow.text.secrets import redact
from wdsflow.text.shell import escape
from wdsflow.text.words import how_many

from .line import Line, OneFile
from .output_record import OutputRecord
from .working_folder import remote_url

if TYPE_CHECKING:
    from typing_extensions import Self

L = TypeVar("L", bound=Line)

F = TypeVar("F", bound=OneFile)

# run_in_threads or run_on_shards.
Runner = Callable[..., None]


@dataclass(kw_only=True)
class OutputsReport(Generic[L]):
    """The results of all outputs of a run.

    Attributes:
        shards: the outputs, in order.
        resumed: outputs that an earlier run had finished.
        changed: outputs that were written again, and why.
        kept: shards that cannot be read now, and whose outputs of an earlier run were kept.
        stale_removed: temporary files of killed runs that were removed.
    """

    shards: list[L] = field(default_factory=list)
    resumed: int = 0
    changed: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    stale_removed: int = 0

    @property
    def outcomes(self) -> Sequence[L]:
        """The outputs, in order."""
        return self.shards

    @property
    def missing_outputs(self) -> list[str]:
        """The names of outputs that do not exist, because nothing was left for them."""
        files = (line for line in self.outcomes if isinstance(line, OneFile))
        return [line.name for line in files if line.name and line.output is None]

    def check(self) -> None:
        """Raise RuntimeError if the counts of an output do not add up."""
        for each in self.outcomes:
            each.check()

    def naming(self, out: str | os.PathLike[str], folder: Path) -> "Self":
        """Name the outputs by their url ``out`` instead of by the working folder; return the report."""
        if remote_url(out) is not None:
            url = redact(str(out).rstrip("/"))
            self.changed = [line.replace(str(folder), url) for line in self.changed]
            for line in self.outcomes:
                if isinstance(line, OneFile) and line.output:
                    line.output = line.output.replace(str(folder), url)
        return self

    def total(self, name: str) -> int:
        """Sum a number over the outputs; of counts by reason, such as those of quarantined samples, all of them."""
        values = [getattr(each, name) for each in self.outcomes]
        return sum(
            sum(value.values()) if isinstance(value, Mapping) else int(value) for value in values
        )

    def merged(self, name: str) -> Counter[str]:
        """Sum counts by reason over the outputs."""
        found: Counter[str] = Counter()
        for each in self.outcomes:
            found.update(getattr(each, name))
        return +found

    def lines(self) -> Iterable[str]:
        """Yield the report."""
        raise NotImplementedError

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def again_lines(self, did: str, most: int | None = None) -> Iterator[str]:
        """Yield why outputs were written again, and which of an earlier run were kept."""
        yield from (f"{did} again: {escape(line, 600)}" for line in self.changed[:most])
        for url in self.kept[:most]:
            yield f"kept from an earlier run: the output of {escape(url, 600)}, which cannot be read now"

    @property
    def done_before(self) -> str:
        """How many outputs an earlier run had finished, in brackets; "" for none."""
        return f" ({how_many(self.resumed, 'shard')} done before)" if self.resumed else ""


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
    """Write the outputs that are not done yet, and record each as it is finished, also if an error ends the run.

    Args:
        work: all outputs, each with the record of its folder, which has begun.
        write: writes one output, whole or not at all, and fills in its line.
        made_from: returns the values that decide the bytes of an output. Raises SourceError.
        report: gets the numbers of outputs that are done already, and of those that are written again.
        jobs: outputs at a time.
        begin: for a display of progress.
        label: names an output in the report.
        runner: ``run_in_threads``, or ``run_on_shards`` if jobs, ``write`` and ``made_from`` can be pickled.

    Returns the lines of all outputs, in order. Raises OSError.
    """
    done: dict[Path, F] = {}
    records = {job.target: record for record, job in work}
    todo: list[Job] = []
    reasons: dict[Path, str] = {}
    kept = set[Path]()
    for record, job in work:
        line, reason = record.known(job.target.name, partial(made_from, job))
        if line is None:
            todo.append(job)
            reasons[job.target] = reason
        else:
            line.output = str(job.target) if line.identity else None
            done[job.target] = line
    report.resumed = len(done)

    def note(job: Job, written: tuple[dict[str, object], F]) -> None:
        made, line = written
        done[job.target] = line
        if line.output is None and made:
            # It would be taken for the output of this run.
            job.target.unlink(missing_ok=True)
            records[job.target].lines.pop(job.target.name, None)
        elif line.output is None and job.target.exists():
            kept.add(job.target)
        if line.is_final:
            line.seal(job.target, made)
            records[job.target].add(line)

    kind = next((record.kind for record, _ in work), OneFile)
    runner(todo, partial(write_one, kind, write, made_from), note, jobs, begin)
    report.kept = [label(job) for job in todo if job.target in kept]
    redone = (job for job in todo if reasons[job.target] and job.target not in kept)
    report.changed += [f"{label(job)}: {reasons[job.target]}" for job in redone]
    return [done[job.target] for _, job in work]


def write_one(
    kind: type[F], write: Write[Job, F], made_from: MadeFrom[Job], job: Job, stop: Event
) -> tuple[dict[str, object], F]:
    """Write one output; return the values that decided it, none if its inputs could not be identified, and its line.

    They are taken before the inputs are read: if one changes later, the next run notices. Raises
    OSError.
    """
    line, made = kind.of(job), dict[str, object]()
    try:
        made = made_from(job)
        write(job, line, stop)
        if made_from(job) != made:
            raise SourceChangedError
    except OSError as error:
        line = line.failed(error)
    line.check()
    return made, line


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
    """Run a command that writes one file per job into one folder, from ``begin`` to ``finish`` of its record.

    The arguments are those of ``OutputRecord.begin`` and ``run_outputs``, and so are the errors.
    """
    record.begin(flags, [job.target.name for job in work], inputs=inputs, restart=restart)
    report.stale_removed = record.stale
    todo = [(record, job) for job in work]
    report.shards = run_outputs(todo, write, made_from, report, jobs=jobs, begin=begin)
    record.finish()
    report.check()
