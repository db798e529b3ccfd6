"""One pass over shards: what is done already, what is left, and its results written down."""

import json
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import wdsflow
from wdsflow.filtering.finish import finish
from wdsflow.filtering.folder import finished, held, prepare, sweep
from wdsflow.filtering.identity import canonical
from wdsflow.filtering.job import ShardTask, run_shard, task_identity
from wdsflow.filtering.layout import Layout
from wdsflow.filtering.manifest import Manifest
from wdsflow.filtering.options import OutputError, RunOptions
from wdsflow.filtering.program import UNREADABLE, program_of
from wdsflow.filtering.recipe import Recipe
from wdsflow.filtering.record import ShardFailure, ShardRecord
from wdsflow.filtering.report import RunReport
from wdsflow.filtering.share import share_memory
from wdsflow.filtering.worker import Trouble
from wdsflow.filtering.workers import work_on
from wdsflow.memory.sizes import parse_size


@dataclass
class Pass:
    """What each task of a run is made from, and where its results go.

    ``scored``: the ledgers that have all values, where no sample is to be read. ``compares``: values of scores that
    compare all samples are taken from the folder. ``before``: called when the folder is ready; it may set ``sources``
    and fill the folder; where it returns False the run ends there.
    """

    kind: str
    urls: list[str]
    names: list[str]
    layout: Layout
    recipe: Recipe
    options: RunOptions
    tars: bool = True
    scored: Layout | None = None
    compares: bool = False
    before: Callable[["Pass", RunReport], bool] | None = None
    sources: Any = None  # whatever else the result depends on
    asked: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.asked = {
            "kind": self.kind,
            "wdsflow": wdsflow.__version__,
            "recipe": self.recipe.to_dict(),
            **program_of(self.recipe).identities(),
            "urls": self.urls,
            "names": self.names,
        }

    @property
    def identity(self) -> str:
        """The digest by which a later run tells whether a shard is done."""
        identities = program_of(self.recipe).identities()
        return task_identity(self.recipe, {**identities, "kind": self.kind, "sources": self.sources})

    def shards(self) -> list[tuple[int, str, str]]:
        """Return number, url and name of the shards of this run's slice."""
        every = list(zip(range(len(self.urls)), self.urls, self.names, strict=True))
        return every[self.options.index :: self.options.count]

    def run(self) -> RunReport:
        """Do what is not done yet. Raises Busy, Differs, FileExistsError, LedgerError, OutputError."""
        report = RunReport(self.layout.folder, tars=self.tars, quarantine=self.layout.quarantined)
        report.dry_run = self.options.dry_run
        with ExitStack() as stack:
            locks = self._open(stack)
            if self.before is None or self.before(self, report):
                done, report.changed = finished(self.layout, self.shards(), self.identity)
                report.records, report.resumed = list(done.values()), len(done)
                self._work(locks, [shard for shard in self.shards() if shard[2] not in done], report)
                if not self.options.dry_run:
                    report.whole = finish(self.layout, self.names, tars=self.tars)
        report.records.sort(key=lambda record: record.shard)
        report.failures.sort(key=lambda failure: failure.shard)
        report.check()
        return report

    def _open(self, stack: ExitStack) -> list[int]:
        """Make the folder ready; a dry run gets one that goes."""
        options = self.options
        if options.dry_run:
            self.layout = Layout(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="wdsflow-"))))
            for folder in self.layout.folders():
                folder.mkdir(parents=True, exist_ok=True)
            return []
        locks = stack.enter_context(held(self.layout, options.index, options.count))
        stack.callback(sweep, self.layout)
        prepare(self.layout, self.asked, restart=options.restart)
        return locks

    def _work(self, locks: Sequence[int], todo: Sequence[tuple[int, str, str]], report: RunReport) -> None:
        options = self.options
        if not todo:
            return
        budget = parse_size(self.recipe.image_memory)
        workers = share_memory(options.memory, options.workers, len(todo), budget)
        tasks = self._tasks(todo, budget)
        tell = options.begin(len(tasks)) if options.begin else None
        with ExitStack() as stack:
            manifest = None
            if not options.dry_run:
                manifest = stack.enter_context(Manifest(self.layout.manifest(options.index, options.count)))
            for task, answer in work_on(tasks, run_shard, workers, locks):
                result = _taken(task, answer, manifest, report)
                if tell is not None:
                    tell(result)

    def _tasks(self, todo: Sequence[tuple[int, str, str]], budget: int) -> list[ShardTask]:
        about = json.loads(canonical({name: self.asked[name] for name in ("wdsflow", "recipe", "view")}))
        identities = json.loads(canonical(self.asked["scores"]))
        return [
            ShardTask(
                *shard,
                self.recipe,
                self.layout,
                identity=self.identity,
                about={**about, "identities": identities},
                tars=self.tars,
                write=not self.options.dry_run,
                budget=budget,
                allow_pipe=self.options.allow_pipe,
                scored=self.scored,
                compares=self.compares,
            )
            for shard in todo
        ]


def _taken(task: ShardTask, answer: Any, manifest: Manifest | None, report: RunReport) -> ShardRecord | ShardFailure:
    if isinstance(answer, Trouble):
        if answer.errno and answer.errno not in UNREADABLE:  # an output's fault: all others would meet it, too
            raise OutputError(answer.errno, answer.text)
        failure = ShardFailure(task.shard, task.url, task.name, answer.text)
        report.failures.append(failure)
        return failure
    assert isinstance(answer, ShardRecord)
    if manifest is not None:
        try:
            manifest.add(answer)
        except OSError as error:
            raise OutputError(error.errno, f"{error.strerror}: the manifest") from error
    report.records.append(answer)
    return answer
