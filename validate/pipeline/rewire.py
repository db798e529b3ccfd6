"""A pipeline as it is, but over other shards, once, and sample by sample."""

import copy
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from wdsflow.text.shell import escape

from ..tracing.pipeline_steps import continues, is_loader, is_pipeline, repetition
from ..tracing.stage_words import bare_name, title
from .alone_in_batch import AloneInBatch, without_left_out
from .load_pipeline import PipelineError
from .other_datasets import Items, Rows, is_indexed, is_map_style, is_ray, order_of

# Stages whose effect on a sample depends on its fields, and on whether they decode: on nothing else in them.
_BLIND = frozenset(
    "tarfile_samples tarfile_to_samples tar_file_expander group_by_keys check_empty StreamingOpen FileCache url_opener "
    "single_node_only split_by_node split_by_worker shuffle detshuffle to_tuple rename rename_keys batched unbatched "
    "unlisted listed log_keys".split()
)
_OPENS_TARS = ("tarfile", "tar_file", "url_opener", "StreamingOpen", "FileCache")
FORM_SAMPLES = ("tarfile_to_samples", "tarfile_samples", "group_by_keys", "cached_tarfile_to_samples")
_FORM_SAMPLES = ("samples", "group_by_keys", "tar_file_expander")
_PICK_MEMBERS = ("select_files", "rename_files", "keys", "suffixes")
_DROPS_BY_CHANCE = ("rsample",)
_SPLITS = ("single_node_only", "split_by_node", "split_by_worker")
_SOURCES = {"SimpleShardList": "list", "ResampledShards": "resampled", "ResampledShardList": "resampled"}
_MAKE_COLUMNS = {"datasets.": "datasets", "ray.data": "ray-data"}  # with the name of the reader
_TAKES_SOME = ("slice", "islice")


class BatchStage(NamedTuple):
    """What makes batches."""

    size: int  # samples
    keeps_rest: bool  # it gives the last batch although it is incomplete
    workers: int  # processes that make such batches, each of its own samples
    name: str = ""  # "stage 6 batched(16)"


@dataclass(slots=True)
class PipelineFacts:
    """What a pipeline's own object tells, before it runs."""

    stages: list[str] = field(default_factory=list)
    batches: list[BatchStage] = field(default_factory=list)
    workers: int = 0  # processes of its loaders
    endless: bool = False  # repeats its shards as often as an epoch needs
    breaks: bool = False  # but not where a pass gives nothing
    resampled: bool = False  # draws shards with replacement
    shuffles: bool = False
    chance: bool = False  # drops samples by chance
    draws: bool = False  # draws random numbers, perhaps only to augment images
    mixes_shards: bool = False  # their order is drawn
    slices: bool = False  # takes some samples only, by their places
    blind: bool = True  # no stage looks at contents, beyond decoding them
    opaque: bool = False  # it is not made of stages that are known here
    gathers: bool = False  # own code gets the stream of samples, and may make batches of them
    columns_by: str = ""  # the reader that makes its columns from the first samples, and may refuse others
    source: str = ""  # of shards: "list", "resampled"; "" if unknown
    seed: int | None = None  # of a list that is shuffled, the same way everywhere
    splits: list[str] = field(default_factory=list)  # single_node_only, split_by_node, split_by_worker, in their order
    shuffled_before: bool = False  # shards are shuffled before a split
    shuffled_apart: list[str] = field(default_factory=list)  # splits after a shuffle that is another in each worker
    checks_empty: bool = False  # raises where a worker reads no sample at all
    collation_drops: bool = False  # it left samples out when it made batches
    may_end: list[str] = field(default_factory=list)  # stages at which one sample may end the run, by what it holds
    decodes_strictly: bool = False  # one that does not decode ends the run
    limit: int | None = None  # samples after which it ends, by its own slice
    picks_shards: bool = False  # the function that makes it leaves shards out


class Rewiring:
    """Copies a pipeline: other shards, ``batched(1)`` where ``singly``. The object itself is not changed."""

    def __init__(
        self, urls: Sequence[str], *, made_for_them: bool, singly: bool, change: tuple[int, str] | None = None
    ) -> None:
        self.change = change or (0, "")  # after a stage of that number come others; without code it gets a handler
        self.urls, self.made_for_them, self.singly = list(urls), made_for_them, singly
        self.facts = PipelineFacts()
        self._opened = False  # a stage has opened tars
        self._workers = 1  # that run the stages at hand
        self._size = 1  # samples in what the stages at hand get

    def rewire(self, thing: Any) -> Any:
        """Return the copy. Raises PipelineError if the shards of an object cannot be replaced."""
        if hasattr(thing, "dataloader"):  # OpenCLIP's DataInfo
            thing = thing.dataloader
        if is_pipeline(thing):
            return self._pipeline(thing)
        if is_loader(thing):
            return self._loader(thing)
        if isinstance(thing, dict):
            raise PipelineError(
                f"it gives a {type(thing).__name__} of {', '.join(map(repr, thing))}; return one of them"
            )
        self.facts.stages.append(bare_name(thing))
        self.facts.blind, self.facts.opaque, self.facts.gathers = False, True, True
        self.facts.may_end.append(f"stage {len(self.facts.stages)} {self.facts.stages[-1]}")
        module = type(thing).__module__
        library = next((name for name in _MAKE_COLUMNS if module.startswith(name)), "")
        self.facts.columns_by = _MAKE_COLUMNS.get(library, self.facts.columns_by)
        if is_ray(thing) or is_map_style(thing):
            if not self.made_for_them:
                raise _irreplaceable(thing)
            return Rows(thing) if is_ray(thing) else Items(thing)
        return thing if self.made_for_them else self._redirected(thing)

    def _pipeline(self, pipeline: Any) -> Any:
        twin = copy.copy(pipeline)
        first, *others = pipeline.pipeline
        opens = any(mark in bare_name(stage) for stage in others for mark in _OPENS_TARS)
        nested = is_pipeline(first) or is_loader(first)
        if not nested and opens:
            self._note_split(first, others)
        first = self._source(first) if not nested and opens else self.rewire(first)
        twin.pipeline = [first]
        for stage in others:
            twin.pipeline += self._changed(self._stage(stage))
        endless, breaks = repetition(pipeline)
        if endless:
            self.facts.endless, self.facts.breaks = True, breaks
        return twin

    def _changed(self, stage: Any) -> list[Any]:
        number, code = self.change
        if number != len(self.facts.stages):
            return [stage]
        if code:
            names: dict[str, Any] = {}
            exec(code, names)  # noqa: S102 - code of our own
            return [stage, *names["stages"]]
        if not hasattr(stage, "kw"):
            return [stage]
        twin = copy.copy(stage)
        twin.kw = {**stage.kw, "handler": lambda error: True}
        return [twin]

    def _note_split(self, source: Any, stages: Sequence[Any]) -> None:
        """Note how shards come to workers."""
        facts, names = self.facts, [bare_name(stage) for stage in stages]
        opener = next(index for index, name in enumerate(names) if any(mark in name for mark in _OPENS_TARS))
        facts.splits = [name for name in names[:opener] if name in _SPLITS]
        facts.source = _SOURCES.get(bare_name(source), "list" if isinstance(source, list) else "")
        facts.seed = getattr(source, "seed", None) if facts.source == "list" else None
        facts.checks_empty = "check_empty" in names
        for index, name in enumerate(names[:opener]):
            if name == "resampled" and facts.source:
                facts.source = "resampled"
            elif "shuffle" in name and _shuffles(stages[index]):
                facts.shuffled_before |= any(each in _SPLITS for each in names[index:opener])
            elif name not in _SPLITS and "shuffle" not in name:
                facts.source = ""  # code of the user decides
        apart = [index for index, name in enumerate(names[:opener]) if name == "shuffle" and _own_order(stages[index])]
        if facts.shuffled_before and apart:
            if facts.source == "list":
                facts.shuffled_apart = [name for name in names[apart[0] : opener] if name in _SPLITS]
            facts.source = ""  # each worker shuffles its own way, and then takes its part

    def _source(self, stage: Any) -> Any:
        self.facts.stages.append(title(stage))
        self.facts.resampled |= getattr(stage, "nshards", 0) > sys.maxsize // 2 or "esampled" in bare_name(stage)
        self.facts.shuffles |= getattr(stage, "seed", None) is not None and not self.facts.resampled
        self.facts.mixes_shards |= self.facts.shuffles or self.facts.resampled
        return [{"url": url} for url in (self._picked(stage) or self.urls)]

    def _picked(self, stage: Any) -> list[str]:
        """Return the shards that the user's function has picked from those that it got; nothing if it took all."""
        own = list(dict.fromkeys(map(str, stage if isinstance(stage, list) else getattr(stage, "urls", ()))))
        if not self.made_for_them or not own or not set(own) < set(self.urls):
            return []
        self.facts.picks_shards = True
        return own

    def _stage(self, stage: Any) -> Any:
        facts, name = self.facts, bare_name(stage)
        facts.stages.append(title(stage))
        facts.shuffles |= "shuffle" in name and _shuffles(stage)
        facts.mixes_shards |= "shuffle" in name and _shuffles(stage) and not self._opened
        self._opened |= any(mark in name for mark in _OPENS_TARS)
        facts.chance |= name in _DROPS_BY_CHANCE
        facts.slices |= name in _TAKES_SOME
        facts.blind &= name in _BLIND or _only_decodes(stage)
        facts.gathers |= self._opened and not _of_webdataset(stage)
        self._note_ends(stage, name)
        if any(mark in name for mark in _FORM_SAMPLES) and any(map(getattr(stage, "kw", {}).get, _PICK_MEMBERS)):
            facts.blind = False  # own code chooses or renames the members of samples
            facts.may_end.append(f"stage {len(facts.stages)} {facts.stages[-1]}")
        if name in _TAKES_SOME and self.singly and self._size > 1:
            return self._of_single_samples(stage)
        self._size = 1 if name in ("unbatched", "unlisted") else self._size
        if name != "batched":
            return stage
        positional, named = list(getattr(stage, "args", ())), dict(getattr(stage, "kw", {}))
        size = named.get("batchsize", positional[0] if positional else 20)  # webdataset's default
        keeps_rest = named.get("partial", positional[2] if len(positional) > 2 else True)
        facts.batches.append(BatchStage(int(size), bool(keeps_rest), self._workers, self._last_name()))
        self._size *= int(size)
        facts.blind &= not any(callable(each) for each in (*positional[1:2], named.get("collation_fn")))
        if not self.singly or not hasattr(stage, "kw"):
            return stage
        twin = copy.copy(stage)
        rest = {name: value for name, value in named.items() if name not in ("batchsize", "partial")}
        if len(positional) > 1:
            rest["collation_fn"] = positional[1]
        if callable(rest.get("collation_fn")):
            rest["collation_fn"] = self._alone(rest["collation_fn"], int(size))
            twin.f = without_left_out(stage.f)
        twin.args, twin.kw = (), {**rest, "batchsize": 1, "partial": True}
        return twin

    def _of_single_samples(self, stage: Any) -> Any:
        """Return a stage that takes some batches as one that takes their samples."""
        numbers = getattr(stage, "args", ())
        if not 1 <= len(numbers) <= 2 or not all(isinstance(each, int) for each in numbers):
            return stage
        twin = copy.copy(stage)
        twin.args = tuple(each * self._size for each in numbers)
        return twin

    def _note_ends(self, stage: Any, name: str) -> None:
        """Note whether one sample can end the run at a stage, or whether the stage ends it after a number of them."""
        facts = self.facts
        if name in _TAKES_SOME:
            numbers: Any = getattr(stage, "args", ())
            if len(numbers) == 1 and isinstance(numbers[0], int):
                limit = numbers[0] * self._size
                facts.limit = limit if facts.limit is None else min(limit, facts.limit)
        elif name not in _BLIND and name not in _DROPS_BY_CHANCE and not continues(stage):
            if _only_decodes(stage):
                facts.decodes_strictly = True
            else:
                facts.may_end.append(f"stage {len(facts.stages)} {facts.stages[-1]}")

    def _loader(self, loader: Any) -> Any:
        facts, twin = self.facts, copy.copy(loader)
        by_number = is_indexed(loader)
        if not by_number:  # then each of its processes makes batches of its own samples
            facts.workers = max(facts.workers, int(loader.num_workers))
        # Torch refuses these assignments after the constructor: the loader's sampler would be the old one's.
        self._workers = max(1, int(loader.num_workers))
        dataset = loader.dataset
        if isinstance(dataset, dict):  # not of splits
            facts.stages.append(bare_name(dataset))
            facts.blind, facts.opaque, facts.gathers = False, True, True
        else:
            dataset = self.rewire(dataset)
        twin.__dict__["dataset"] = dataset
        self._workers = 1
        if by_number:
            items = dataset.dataset if isinstance(dataset, Items) else dataset
            twin.__dict__["dataset"] = Items(items, order_of(loader))
            facts.shuffles |= "Sequential" not in type(loader.sampler).__name__
            if loader.batch_size is None and loader.batch_sampler is not None:
                size = int(getattr(loader.batch_sampler, "batch_size", None) or 1)
                twin.__dict__.update(batch_size=1, collate_fn=self._alone(loader.collate_fn, size))
                facts.batches.append(BatchStage(size, keeps_rest=True, workers=1))
        facts.stages.append(f"DataLoader(batch_size={loader.batch_size}, num_workers={loader.num_workers})")
        if loader.batch_size is not None:
            workers = 1 if by_number else max(1, loader.num_workers)
            facts.batches.append(BatchStage(loader.batch_size, not loader.drop_last, workers, self._last_name()))
            facts.blind = False  # its collate function may refuse what it likes
            if self.singly:
                collate = self._alone(loader.collate_fn, loader.batch_size)
                twin.__dict__.update(batch_size=1, drop_last=False, collate_fn=collate)
        return twin

    def _last_name(self) -> str:
        return f"stage {len(self.facts.stages)} {self.facts.stages[-1]}"

    def _alone(self, collate: Any, size: int) -> AloneInBatch:
        return AloneInBatch(collate, size, lambda: setattr(self.facts, "collation_drops", True))

    def _redirected(self, thing: Any) -> Any:
        """Replace the shards in the attributes of an object that is no pipeline of webdataset."""
        if not hasattr(thing, "__dict__"):  # such as a generator, which cannot even be copied
            raise _irreplaceable(thing)
        twin, found = copy.copy(thing), 0
        for name, value in vars(thing).items():
            if is_pipeline(value) or is_loader(value):
                setattr(twin, name, self.rewire(value))
                found += 1
            elif isinstance(value, list | tuple) and value and all(map(_is_shard, value)):
                setattr(twin, name, type(value)(self.urls))
                found += 1
        if not found:
            raise _irreplaceable(thing)
        return twin


def check_made(found: Any, built: Any) -> None:
    """Raise PipelineError if a function returned nothing, or several pipelines instead of a list of stages."""
    name = escape(getattr(found, "__name__", type(found).__name__), 60)
    if built is None:
        raise PipelineError(f"{name} returned None: is a return missing?")
    if not isinstance(built, list | tuple):
        return
    kind, pipelines = type(built).__name__, [each for each in built if _gives_samples(each)]
    others = [each for each in built[1:] if not _gives_samples(each) and not (callable(each) or hasattr(each, "run"))]
    if len(pipelines) > 1:
        raise PipelineError(f"{name} returned a {kind} of {len(pipelines)} pipelines; return the one to judge")
    if pipelines and others:
        raise PipelineError(
            f"{name} returned a {kind} with a value of type {type(others[0]).__name__}; return the pipeline alone"
        )


def _gives_samples(thing: Any) -> bool:
    iterable = hasattr(thing, "__iter__") and not callable(thing) and not isinstance(thing, str | bytes | dict)
    return iterable or is_pipeline(thing) or is_loader(thing) or is_ray(thing) or is_map_style(thing)


def _irreplaceable(thing: Any) -> PipelineError:
    return PipelineError(
        f"the shards of this {type(thing).__name__} cannot be replaced; name a function of the shards instead:"
        " def make(urls): ..."
    )


def _shuffles(stage: Any) -> bool:
    """Return whether a shuffle has a buffer: webdataset writes ``shardshuffle=False`` as one without."""
    size = next(iter(getattr(stage, "args", ())), getattr(stage, "kw", {}).get("bufsize", True))
    return bool(size)


def _own_order(stage: Any) -> bool:
    """Return whether webdataset's ``shuffle`` seeds itself, in each process another way: its third argument is a generator."""
    given = next(iter(getattr(stage, "args", ())[2:3]), None) or getattr(stage, "kw", {}).get("rng")
    return given is None and _shuffles(stage)


def _of_webdataset(stage: Any) -> bool:
    """Return whether the code that gets the stream of samples is webdataset's; what it calls may be the user's."""
    return _module(getattr(stage, "f", stage)).startswith("webdataset.")


def _only_decodes(stage: Any) -> bool:
    """Return whether a stage is webdataset's ``decode`` with none but webdataset's own handlers."""
    decoder = _decoder(stage)
    return decoder is not None and all(_module(each).startswith("webdataset.") for each in decoder.handlers)


def _decoder(stage: Any) -> Any:
    """Return the decoder of webdataset's ``decode``: it gives the fields that it gets; None for another stage."""
    values = [*getattr(stage, "args", ()), *(getattr(stage, "kw", None) or {}).values()][:1]
    own = (each for each in values if type(each).__module__.startswith("webdataset."))
    return next((each for each in own if isinstance(getattr(each, "handlers", None), list)), None)


def _module(thing: Any) -> str:
    return str(getattr(thing, "__module__", None) or type(thing).__module__)


def _is_shard(value: object) -> bool:
    return isinstance(value, str | os.PathLike) and ".tar" in os.fspath(value)[-12:]
