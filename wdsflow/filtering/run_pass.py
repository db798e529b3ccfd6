"""One pass over shards: processes those that are not done, on the engine of the run, and records the results."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial

from wdsflow import version
from wdsflow.engines.base import Engine, Trouble, work_on
from wdsflow.engines.cluster import Cluster, connected
from wdsflow.engines.local import FirstHere, LocalEngine, OwnProcess
from wdsflow.engines.ray_engine import RayEngine, has_gpus, share_of_gpu, slots
from wdsflow.engines.site import Site, first_local, usable_cores, usual_processes
from wdsflow.expressions.score_call import ScoreCall
from wdsflow.filtering.deciding.broken_scores import BrokenRunGuard
from wdsflow.filtering.deciding.ledger_subset import is_complete, lacking_columns
from wdsflow.filtering.deciding.program import program_of
from wdsflow.filtering.ledger.embeddings import Reuse
from wdsflow.filtering.ledger.ledger_metadata import read_about
from wdsflow.filtering.recipe.recipe import Recipe, canonical, digest, recorded
from wdsflow.filtering.shard.shard_job import run_shard
from wdsflow.filtering.shard.shard_outputs import ShardTask
from wdsflow.memory.batching.device_names import choose
from wdsflow.memory.sizes import format_size, parse_size
from wdsflow.models.memory_share import memory_share
from wdsflow.models.model_costs import ModelCost, add_costs
from wdsflow.models.model_location import WINDOW, ModelLocation
from wdsflow.models.models_at import costs_here, models_at
from wdsflow.models.processes import ModelProcesses
from wdsflow.records.unfinished import unfinished_run
from wdsflow.shards.atomic import UNREADABLE
from wdsflow.shards.scratch import scratch
from wdsflow.shards.shard import Shard
from wdsflow.shards.source.base import file_size
from wdsflow.stages.scores.model.model import Model

from .run_folder import Layout, ShardFailure, ShardRecord, aside_of
from .run_options import OutputError, RunOptions, say_all
from .run_progress import RunWatch, watching
from .run_record import RunRecord, scores_of
from .run_report import RunReport
from .score_costs import models_by_digest

_Costs = Callable[[Mapping[str, Model]], list[ModelCost]]
# Bytes of a process before it sees a sample.
BASE = 160 << 20


class TooLittleMemory(ValueError):
    """Too little memory for one worker, which needs ``least`` bytes."""

    def __init__(self, memory: int, image: int, least: int) -> None:
        super().__init__(
            f"{format_size(memory)} is too little memory: a worker and one image of {format_size(image)} need"
            f" {format_size(least)}; --image-memory lowers that"
        )
        self.least = least


def share_memory(
    memory: int | None,
    workers: int | None,
    shards: int,
    image: int,
    cores: int = 0,
    own: int = BASE,
) -> int:
    """Return the number of worker processes; 0 stays 0: work in this process.

    ``memory`` bounds all processes together, including the caller: each worker must be able to hold
    an image of ``image`` bytes. ``cores``: slots of a cluster, or the usual number of processes
    here; 0 takes one for each core. ``own``: memory of a worker before its first sample. Raises
    ValueError if memory is not enough for one worker.

    >>> share_memory(4 << 30, 16, 100, 512 << 20)
    5
    """
    cores = cores or usable_cores()
    wanted = min(cores if workers is None else workers, max(shards, 1))
    if memory is None:
        return wanted
    fits = int(memory >= BASE + image) if not wanted else max(memory - BASE, 0) // (own + image)
    if not fits:
        least = BASE + image + (own if wanted else 0)
        raise TooLittleMemory(memory, image, least)
    return min(wanted, fits)


def joined(options: RunOptions) -> AbstractContextManager[Cluster | None]:
    """Stay connected to the cluster of a run, None for this machine. Raises EngineError."""
    return nullcontext() if options.engine == "local" else connected(options.address)


def engine_for(
    recipe: Recipe,
    layout: Layout,
    options: RunOptions,
    urls: Sequence[Shard],
    locks: Sequence[int],
    cluster: Cluster | None,
    *,
    scores: bool,
    window: int = WINDOW,
) -> Engine[ShardTask]:
    """Return the engine of a run.

    ``urls``: shards to process. ``locks``: descriptors that workers of this machine hold.
    ``cluster``: the cluster, None for this machine. ``scores``: whether any are computed.
    ``window``: bytes of items that a worker sends to models together; it holds two. Raises
    ValueError if memory is not enough for one worker, EngineError if no worker can start.
    """
    image = parse_size(recipe.image_memory)
    if cluster is None:
        own = BASE + 2 * (window - WINDOW)
        usual = usual_processes(remote=any(url.path is None for url in urls[:1]))
        workers = share_memory(options.memory, options.jobs, len(urls), image, usual, own)
        if not workers:
            return OwnProcess(run_shard)
        here = options.jobs is None and program_of(recipe).is_safe(scores=scores)
        sizes = [file_size(url) for url in urls] if here else []
        # All are files of this machine.
        if sizes and all(sizes):
            return FirstHere(
                run_shard, workers, lambda task: file_size(task.url), sum(sizes), locks
            )
        return LocalEngine(run_shard, workers, locks)
    sees = (str(layout.inside.absolute()), *first_local(url.path for url in urls))
    hold = (
        "" if options.dry_run else str(layout.workers_lock(options.index, options.count).absolute())
    )
    program = program_of(recipe)
    gpus = program.gpus if scores and options.device != "cpu" else 0.0
    need = partial(
        memory_share, program.models if scores else (), options.device, options.gpu_memory
    )
    make = partial(
        _actors, site=Site(sees, hold), workers=options.jobs, memory=options.memory, need=need
    )
    return cluster(partial(make, shards=len(urls), image=image, gpus=gpus))


def _actors(
    ray: object,
    *,
    site: Site,
    workers: int | None,
    memory: int | None,
    need: Callable[[], float | None],
    shards: int,
    image: int,
    gpus: float,
) -> RayEngine[ShardTask]:
    """Return the engine of a run on a cluster; runs where Ray is."""
    # An actor, and its process.
    own = 2 * BASE
    gpus = share_of_gpu(ray, need, gpus) if gpus and has_gpus(ray) else 0.0
    # Otherwise as many as fit into the cluster at that time.
    if memory is not None:
        workers = share_memory(memory, workers, shards, image, slots(ray, gpus), own)
    return RayEngine(ray, run_shard, site, workers=workers, gpus=gpus, memory=own + image)


@dataclass
class Pass:
    """The common input of a run's tasks, and the destination of their results.

    ``scored``: ledgers whose values are taken; ``computes``: these may lack some. ``given``:
    ledgers whose values are used by a pass that reads all samples. ``embedded``: ledgers whose
    embeddings are
    used. ``compares``: values of scores that compare all samples are read from the folder.
    ``cluster``: a cluster that the caller has joined. ``before``: called when the folder is ready;
    it may set ``sources`` and fill the folder; if it returns False the run ends there. ``other``:
    another folder of the run, whose ledgers may have some of the values.
    """

    kind: str
    urls: list[Shard]
    names: list[str]
    layout: Layout
    recipe: Recipe
    options: RunOptions
    tars: bool = True
    scored: Layout | None = None
    embedded: Reuse | None = None
    compares: bool = False
    cluster: Cluster | None = None
    before: Callable[["Pass", RunReport], bool] | None = None
    # Further inputs of the result.
    sources: object = None
    other: Layout | None = None
    computes: bool = False
    given: Layout | None = None
    asked: dict[str, object] = field(init=False)
    # Without the mark of an unfinished run.
    _was_whole: bool = field(default=False, init=False)
    # Shards whose ledgers there lack only scores.
    _known: dict[str, Layout] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.asked = {
            "kind": self.kind,
            "wdsflow": version.__version__,
            "recipe": recorded(self.recipe),
            **program_of(self.recipe).identities(),
            "urls": self.urls,
            "names": self.names,
        }
        aside = aside_of(self.layout) if self.tars else None
        if aside is not None:
            self.asked["quarantine"] = aside

    @property
    def identity(self) -> str:
        """The digest by which a later run decides whether a shard is done."""
        identities = program_of(self.recipe).identities()
        return digest(
            {
                "recipe": recorded(self.recipe),
                **identities,
                "kind": self.kind,
                "sources": self.sources,
            }
        )

    def shards(self) -> list[tuple[int, Shard, str]]:
        """Return number, url and name of the shards of this run's slice."""
        every = list(zip(range(len(self.urls)), self.urls, self.names, strict=True))
        return every[self.options.index :: self.options.count]

    def run(self) -> RunReport:
        """Process the shards that are not done. Raises Busy, Differs, EngineError, FileExistsError, LedgerError, OutputError."""
        report = RunReport(self.layout.folder, tars=self.tars, quarantine=self.layout.quarantined)
        report.dry_run, report.asked = self.options.dry_run, len(self.shards())
        with ExitStack() as stack:
            record = self._enter(stack)
            if self.before is None or self.before(self, report):
                todo = self.shards() if record is None else self._left(record, report)
                self._work(record, todo, report)
                report.whole = not report.failures
                why = report.failures[0].reason if report.failures else ""
                if record is not None and not report.unread:
                    report.whole = record.finish(why)
                elif record is not None:
                    record.state.note(ended=f"nothing could be read: {why}")
                    if self._was_whole:
                        record.leave_as_it_was()
        report.records.sort(key=lambda record: record.shard)
        report.failures.sort(key=lambda failure: failure.shard)
        report.check()
        return report

    def _left(self, record: RunRecord, report: RunReport) -> list[tuple[int, Shard, str]]:
        """Return the shards that are not done, and note the ledgers that have some of their values."""
        record.identity = self.identity
        record.state.note(identity=self.identity)
        asked = json.loads(canonical(self.asked))
        done, fewer, changed = record.left(self.shards(), asked)
        report.records, report.resumed = list(done.values()), len(done)
        todo = [shard for shard in self.shards() if shard[2] not in done]
        self._known = dict.fromkeys(fewer, self.layout)
        if self.other is not None:
            others = [shard for shard in todo if shard[2] not in self._known]
            self._known |= dict.fromkeys(
                RunRecord(self.other, self.kind).left(others, asked).fewer, self.other
            )
        if self.given is not None:
            for _, _, name in todo:
                if name not in self._known and self.given.ledger(name).is_file():
                    self._known[name] = self.given
        report.changed += changed
        return todo

    def _enter(self, stack: ExitStack) -> RunRecord | None:
        """Prepare the folder; a dry run gets a temporary one, and no record."""
        options = self.options
        record: RunRecord | None = None
        if options.dry_run:
            folder = self.layout.folder.absolute()
            # Other nodes see it, too.
            shared = next(path for path in (folder, *folder.parents) if path.is_dir())
            self.layout = Layout(
                stack.enter_context(scratch("run", shared if options.engine == "ray" else None))
            )
        else:
            record = stack.enter_context(
                RunRecord(self.layout, self.kind, (options.index, options.count))
            )
            self._was_whole = unfinished_run(self.layout.folder) is None
            asked = json.loads(canonical(self.asked))
            record.begin(
                asked, self.names, inputs=self.urls, restart=options.restart, shards=self.tars
            )
        for folder in self.layout.folders():
            folder.mkdir(parents=True, exist_ok=True)
        return record

    def _work(
        self, record: RunRecord | None, todo: Sequence[tuple[int, Shard, str]], report: RunReport
    ) -> None:
        options = self.options
        if not todo:
            return
        urls = [url for _, url, _ in todo]
        with ExitStack() as stack:
            models = self._models(stack, todo, record)
            tasks = self._tasks(todo, parse_size(self.recipe.image_memory), models)
            cluster = self.cluster or stack.enter_context(joined(options))
            locks = [lock.fd for lock in record.locks] if record is not None else []
            engine = engine_for(
                self.recipe,
                self.layout,
                options,
                urls,
                locks,
                cluster,
                scores=self.scored is None or self.computes,
                window=models.window,
            )
            activity = "writing" if self.tars else "measuring"
            report_shard = options.begin(len(tasks), activity) if options.begin else None
            guard = BrokenRunGuard(report.records)
            answers = stack.enter_context(closing(work_on(engine, tasks)))
            watch = RunWatch(engine, tasks, activity, models.devices)
            if options.watch is not None:
                stack.enter_context(watching(watch, options.watch))
            for task, answer in answers:
                result = _taken(task, answer, report, guard)
                watch.add(task, getattr(result, "samples", 0))
                done = guard.take(result) if isinstance(result, ShardRecord) else []
                _note(done, record)
                if report_shard is not None:
                    report_shard(result)
            _note(guard.rest(), record)

    @property
    def _for_all(self) -> bool:
        """Whether the ledgers that are given have their scores for all samples."""
        return self.given is None or is_complete(self.given, self.recipe)

    def _lacking(self, todo: Sequence[tuple[int, Shard, str]]) -> set[ScoreCall]:
        """Return the scores that the ledgers of some shards lack."""
        there = (
            set(read_about(self._known[name].ledger(name))["identities"]) for _, _, name in todo
        )
        common = set[str].intersection(*there)
        return {call for call in program_of(self.recipe).scores if str(call) not in common}

    def _models(
        self, stack: ExitStack, todo: Sequence[tuple[int, Shard, str]], record: RunRecord | None
    ) -> ModelLocation:
        """Return the place of models: on this machine one process per device, loaded and tested first."""
        options, program = self.options, program_of(self.recipe)
        models = program.models
        # Otherwise a shard needs all of them.
        if self._for_all and all(name in self._known for _, _, name in todo):
            models = program.models_of(self._lacking(todo))
        first = models
        if self.scored is not None:
            # The others are loaded only if a sample lacks one of their scores.
            first = program.models_of(lacking_columns(program, self.scored, self.names))
        # Models with stored embeddings are loaded only if a sample lacks one.
        if self.embedded is not None:
            first = tuple(model for model in first if model not in self.embedded.served)
        # A dead process is replaced without its worker.
        apart = options.engine != "local"
        place = ModelLocation(
            device=options.device, memory=options.gpu_memory, apart=first if apart else None
        )
        if not models or (self.scored is not None and not self.computes) or apart:
            return place
        if options.jobs == 0:
            lines = models_at(place).prepare(first).lines
            place = replace(place, devices=tuple(choose(options.device)[:1]))
            costs: _Costs = partial(costs_here, place)
        else:
            processes = stack.enter_context(ModelProcesses(options.device, options.gpu_memory))
            lines, place, costs = processes.prepare(first), processes.location, processes.costs
        if record is not None:
            stack.callback(self._keep_costs, costs, record)
        say_all(options, lines)
        return place

    def _keep_costs(self, costs: _Costs, record: RunRecord) -> None:
        """Keep what models took next to the finished shards; a run that finished none leaves nothing."""
        if record.lines:
            # No output depends on them.
            with suppress(OSError, ValueError):
                add_costs(
                    record.costs_path, costs(models_by_digest(program_of(self.recipe).models))
                )

    def _tasks(
        self, todo: Sequence[tuple[int, Shard, str]], budget: int, models: ModelLocation
    ) -> list[ShardTask]:
        tasks = []
        for number, url, name in todo:
            recipe = self._recipe_of(name)
            known = self._known.get(name)
            tasks.append(
                ShardTask(
                    number,
                    url,
                    name,
                    recipe,
                    self.layout,
                    identity=self.identity,
                    about=self._metadata(recipe),
                    tars=self.tars,
                    write=not self.options.dry_run,
                    budget=budget,
                    allow_pipe=self.options.allow_pipe,
                    scored=self.scored,
                    known=known,
                    known_for_all=self._for_all or known != self.given,
                    embedded=self.embedded,
                    compares=self.compares,
                    models=models,
                )
            )
        return tasks

    def _recipe_of(self, name: str) -> Recipe:
        """Return the recipe of a shard: its ledger keeps the scores that it has, also those that are not requested now."""
        if self._known.get(name) != self.layout:
            return self.recipe
        stored = scores_of(read_about(self.layout.ledger(name)))
        if set(stored) <= set(self.recipe.scores):
            return self.recipe
        return replace(self.recipe, scores=tuple(dict.fromkeys([*stored, *self.recipe.scores])))

    def _metadata(self, recipe: Recipe) -> dict[str, object]:
        """Return the metadata of ledgers: how their scores are computed."""
        identities = program_of(recipe).identities()
        found: dict[str, object] = {
            "wdsflow": self.asked["wdsflow"],
            "recipe": recorded(recipe),
            "view": identities["view"],
            "identities": identities["scores"],
        }
        metadata: dict[str, object] = json.loads(canonical(found))
        if self.embedded is not None:
            metadata["embedded"] = self.embedded.digest
        return metadata


def _taken(
    task: ShardTask, answer: object, report: RunReport, guard: BrokenRunGuard
) -> ShardRecord | ShardFailure:
    if isinstance(answer, Trouble):
        # A fault of the output: all others would fail too.
        if answer.errno and answer.errno not in UNREADABLE:
            raise OutputError(answer.errno, answer.text)
        failure = ShardFailure(task.shard, task.url, task.name, answer.text)
        report.failures.append(failure)
        guard.failed(failure, answer.blames)
        return failure
    if isinstance(answer, ShardFailure):
        report.failures.append(answer)
        return answer
    assert isinstance(answer, ShardRecord)
    report.records.append(answer)
    return answer


def _note(done: Sequence[ShardRecord], record: RunRecord | None) -> None:
    if record is None:
        return
    for each in done:
        try:
            record.add(each)
        except OSError as error:
            raise OutputError(error.errno, error.strerror, error.filename) from error
