"""A copy of a pipeline over other shards, once, and sample by sample."""

import copy
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar, cast

from wdsflow.text.shell import escape

from ..tracing.pipeline_steps import (
    Loader,
    Pipeline,
    argument,
    bare_name,
    batch_size,
    continues,
    draws_shards,
    is_loader,
    is_nested,
    is_pipeline,
    module_of,
    named,
    positional,
    repetition,
    title,
)
from .load_pipeline import PipelineError
from .stand_ins import AloneInBatch, Items, is_map_style, is_ray, order_of, without_left_out

_T = TypeVar("_T")

# Stages whose effect on a sample depends only on its fields and whether they decode.
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
    """A stage that makes batches."""

    size: int  # samples
    keeps_rest: bool  # it yields an incomplete last batch
    workers: int  # processes that batch their own samples
    name: str = ""  # "stage 6 batched(16)"


@dataclass(slots=True)
class PipelineFacts:
    """Facts from a pipeline's own object, before it runs."""

    stages: list[str] = field(default_factory=list)
    batches: list[BatchStage] = field(default_factory=list)
    workers: int = 0  # processes of its loaders
    endless: bool = False  # repeats its shards as often as an epoch needs
    breaks: bool = False  # but not after a pass without output
    resampled: bool = False  # draws shards with replacement
    shuffles: bool = False
    chance: bool = False  # drops samples by chance
    draws: bool = False  # draws random numbers, perhaps only to augment images
    mixes_shards: bool = False  # their order is drawn
    slices: bool = False  # takes only some samples, by position
    blind: bool = True  # no stage looks at contents, beyond decoding them
    opaque: bool = False  # its stages are not known
    gathers: bool = False  # the user's code gets the stream of samples, and may batch them
    columns_by: str = ""  # the reader that infers columns from the first samples, and may refuse others
    source: str = ""  # of shards: "list", "resampled"; "" if unknown
    seed: int | None = None  # of a list that is shuffled, the same way everywhere
    splits: list[str] = field(default_factory=list)  # single_node_only, split_by_node, split_by_worker, in their order
    shuffled_before: bool = False  # shards are shuffled before a split
    shuffled_apart: list[str] = field(default_factory=list)  # splits after a shuffle that differs between workers
    checks_empty: bool = False  # raises if a worker reads no sample
    collation_drops: bool = False  # collation dropped samples
    may_end: list[str] = field(default_factory=list)  # stages at which a sample's content may end the run
    decodes_strictly: bool = False  # a sample that does not decode ends the run
    limit: int | None = None  # samples after which it ends, by its own slice
    picks_shards: bool = False  # the function that builds it skips shards

    @property
    def ordered(self) -> bool:
        """Whether samples come out in the order of the shards."""
        return not (self.shuffles or self.chance or self.resampled or self.workers > 1)


def _twin(thing: _T, **changes: object) -> _T:
    """Return a shallow copy with changed attributes: torch's loaders refuse some of these after the constructor."""
    twin = copy.copy(thing)
    vars(twin).update(changes)
    return twin


class Rewiring:
    """Copies a pipeline: other shards, and ``batched(1)`` if ``singly``. The object itself is not changed."""

    def __init__(
        self, urls: Sequence[str], *, made_for_them: bool, singly: bool, change: tuple[int, str] | None = None
    ) -> None:
        self.change = change or (0, "")  # stages to insert after a stage of that number; without code it gets a handler
        self.urls, self.made_for_them, self.singly = list(urls), made_for_them, singly
        self.facts = PipelineFacts()
        self._opened = False  # a stage has opened tars
        self._workers = 1  # that run the current stages
        self._size = 1  # samples in an input of the current stages

    def rewire(self, thing: object) -> object:
        """Return the copy. Raises PipelineError if the shards of an object cannot be replaced."""
        thing = getattr(thing, "dataloader", thing)  # of OpenCLIP's DataInfo
        if is_pipeline(thing):
            return self._pipeline(thing)
        if is_loader(thing):
            return self._loader(thing)
        if isinstance(thing, dict):
            raise PipelineError(
                f"it gives a {type(thing).__name__} of {', '.join(map(repr, thing))}; return one of them"
            )
        self._unknown(thing)
        self.facts.may_end.append(self._last_name())
        made_by = (name for start, name in _MAKE_COLUMNS.items() if type(thing).__module__.startswith(start))
        self.facts.columns_by = next(made_by, self.facts.columns_by)
        if self.made_for_them:
            return thing.iter_rows() if is_ray(thing) else Items(thing) if is_map_style(thing) else thing
        if is_ray(thing) or is_map_style(thing):
            raise _irreplaceable(thing)
        return self._redirected(thing)

    def _unknown(self, thing: object) -> None:
        self.facts.stages.append(bare_name(thing))
        self.facts.blind, self.facts.opaque, self.facts.gathers = False, True, True

    def _last_name(self) -> str:
        return f"stage {len(self.facts.stages)} {self.facts.stages[-1]}"

    def _pipeline(self, pipeline: Pipeline) -> Pipeline:
        first, *others = pipeline.pipeline
        if not is_nested(first) and any(map(_opens_tars, others)):
            self._note_split(first, others)
            first = self._source(first)
        else:
            first = self.rewire(first)
        twin = _twin(pipeline, pipeline=[first])
        for stage in others:
            twin.pipeline += self._changed(self._stage(stage))
        endless, breaks = repetition(pipeline)
        if endless:
            self.facts.endless, self.facts.breaks = True, breaks
        return twin

    def _changed(self, stage: object) -> list[object]:
        number, code = self.change
        if number != len(self.facts.stages):
            return [stage]
        if code:
            names: dict[str, list[object]] = {}
            exec(code, names)  # noqa: S102 - code of our own
            return [stage, *names["stages"]]
        return [_twin(stage, kw={**named(stage), "handler": lambda error: True}) if hasattr(stage, "kw") else stage]

    def _note_split(self, source: object, stages: Sequence[object]) -> None:
        """Note how shards are distributed to workers."""
        facts, opener = self.facts, next(index for index, stage in enumerate(stages) if _opens_tars(stage))
        before = [(bare_name(stage), stage) for stage in stages[:opener]]
        facts.splits = [name for name, _ in before if name in _SPLITS]
        facts.source = _SOURCES.get(bare_name(source), "list" if isinstance(source, list) else "")
        facts.seed = getattr(source, "seed", None) if facts.source == "list" else None
        facts.checks_empty = any(bare_name(stage) == "check_empty" for stage in stages)
        apart: list[str] | None = None  # the splits after a shuffle that differs between workers
        for index, (name, stage) in enumerate(before):
            later = [each for each, _ in before[index:] if each in _SPLITS]
            if name == "shuffle" and apart is None and argument(stage, "rng", 2) is None and _shuffles(stage):
                apart = later  # it seeds itself
            if name == "resampled" and facts.source:
                facts.source = "resampled"
            elif "shuffle" in name and _shuffles(stage):
                facts.shuffled_before |= bool(later)
            elif name not in _SPLITS and "shuffle" not in name:
                facts.source = ""  # the user's code decides
        if facts.shuffled_before and apart is not None:
            facts.shuffled_apart = apart if facts.source == "list" else []
            facts.source = ""  # each worker shuffles independently, and then takes its part

    def _source(self, stage: object) -> list[dict[str, str]]:
        self.facts.stages.append(title(stage))
        self.facts.resampled |= draws_shards(stage) or "esampled" in bare_name(stage)
        self.facts.shuffles |= getattr(stage, "seed", None) is not None and not self.facts.resampled
        self.facts.mixes_shards |= self.facts.shuffles or self.facts.resampled
        own = list(dict.fromkeys(map(str, stage if isinstance(stage, list) else getattr(stage, "urls", ()))))
        picks = self.made_for_them and bool(own) and set(own) < set(self.urls)
        self.facts.picks_shards |= picks
        return [{"url": url} for url in (own if picks else self.urls)]

    def _stage(self, stage: object) -> object:
        facts, name = self.facts, bare_name(stage)
        facts.stages.append(title(stage))
        shuffles = "shuffle" in name and _shuffles(stage)
        facts.shuffles |= shuffles
        facts.mixes_shards |= shuffles and not self._opened
        self._opened |= _opens_tars(stage)
        facts.chance |= name in _DROPS_BY_CHANCE
        facts.slices |= name in _TAKES_SOME
        facts.blind &= name in _BLIND or _only_decodes(stage)
        # Code that gets the stream of samples may call the user's code.
        facts.gathers |= self._opened and not module_of(getattr(stage, "f", stage)).startswith("webdataset.")
        if name in _TAKES_SOME:
            return self._slice(stage)
        if name not in _BLIND and name not in _DROPS_BY_CHANCE and not continues(stage):
            if _only_decodes(stage):
                facts.decodes_strictly = True
            else:
                facts.may_end.append(self._last_name())
        if any(mark in name for mark in _FORM_SAMPLES) and any(map(named(stage).get, _PICK_MEMBERS)):
            facts.blind = False  # the user's code selects or renames the members of samples
            facts.may_end.append(self._last_name())
        self._size = 1 if name in ("unbatched", "unlisted") else self._size
        return self._batched(stage) if name == "batched" else stage

    def _slice(self, stage: object) -> object:
        """Note after how many samples a slice ends the run; return one that takes the samples of those batches."""
        numbers = [each for each in positional(stage) if isinstance(each, int)]
        if len(numbers) < len(positional(stage)):
            return stage
        if len(numbers) == 1:
            limit = numbers[0] * self._size
            self.facts.limit = limit if self.facts.limit is None else min(limit, self.facts.limit)
        if not self.singly or self._size == 1 or not 1 <= len(numbers) <= 2:
            return stage
        return _twin(stage, args=tuple(each * self._size for each in numbers))

    def _batched(self, stage: object) -> object:
        size, collate = batch_size(stage), argument(stage, "collation_fn", 1)
        keeps_rest = bool(argument(stage, "partial", 2, default=True))
        self.facts.batches.append(BatchStage(size, keeps_rest, self._workers, self._last_name()))
        self._size *= size
        self.facts.blind &= not callable(collate)
        if not self.singly or not hasattr(stage, "kw"):
            return stage
        rest = {name: value for name, value in named(stage).items() if name not in ("batchsize", "partial")}
        changes: dict[str, object] = {}
        if len(positional(stage)) > 1:
            rest["collation_fn"] = collate
        if callable(collate):
            rest["collation_fn"] = self._alone(collate, size)
            changes["f"] = without_left_out(stage.f)  # type: ignore[attr-defined]
        return _twin(stage, args=(), kw={**rest, "batchsize": 1, "partial": True}, **changes)

    def _loader(self, loader: Loader) -> Loader:
        facts, workers = self.facts, max(1, int(loader.num_workers))
        # As torch decides it. In other loaders, each process batches its own samples.
        by_number = not isinstance(loader.dataset, sys.modules["torch.utils.data"].IterableDataset)
        facts.workers = facts.workers if by_number else max(facts.workers, int(loader.num_workers))
        self._workers = workers
        if isinstance(loader.dataset, dict):  # not a dict of splits
            self._unknown(loader.dataset)
            dataset: object = loader.dataset
        else:
            dataset = self.rewire(loader.dataset)
        self._workers = 1
        changes: dict[str, object] = {"dataset": dataset}
        if by_number:
            items = dataset.dataset if isinstance(dataset, Items) else dataset
            changes["dataset"] = Items(cast("Mapping[object, object]", items), order_of(loader))
            facts.shuffles |= "Sequential" not in type(loader.sampler).__name__
            if loader.batch_size is None and loader.batch_sampler is not None:
                size = int(getattr(loader.batch_sampler, "batch_size", None) or 1)
                changes.update(batch_size=1, collate_fn=self._alone(loader.collate_fn, size))
                facts.batches.append(BatchStage(size, keeps_rest=True, workers=1))
        facts.stages.append(f"DataLoader(batch_size={loader.batch_size}, num_workers={loader.num_workers})")
        if loader.batch_size is not None:
            workers = 1 if by_number else workers
            facts.batches.append(BatchStage(loader.batch_size, not loader.drop_last, workers, self._last_name()))
            facts.blind = False  # its collate function may refuse anything
            if self.singly:
                collate = self._alone(loader.collate_fn, loader.batch_size)
                changes.update(batch_size=1, drop_last=False, collate_fn=collate)
        return _twin(loader, **changes)

    def _alone(self, collate: Callable[[list[object]], object], size: int) -> AloneInBatch:
        return AloneInBatch(collate, size, lambda: setattr(self.facts, "collation_drops", True))

    def _redirected(self, thing: object) -> object:
        """Replace the shards in the attributes of an object that is not a webdataset pipeline."""
        if not hasattr(thing, "__dict__"):  # such as a generator, which cannot even be copied
            raise _irreplaceable(thing)
        changes: dict[str, object] = {}
        for name, value in vars(thing).items():
            if is_nested(value):
                changes[name] = self.rewire(value)
            elif isinstance(value, list | tuple) and value and all(map(_is_shard, value)):
                changes[name] = type(value)(self.urls)
        if not changes:
            raise _irreplaceable(thing)
        return _twin(thing, **changes)


def check_made(found: object, built: object) -> None:
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


def _gives_samples(thing: object) -> bool:
    iterable = hasattr(thing, "__iter__") and not callable(thing) and not isinstance(thing, str | bytes | dict)
    return iterable or is_nested(thing) or is_ray(thing) or is_map_style(thing)


def _irreplaceable(thing: object) -> PipelineError:
    return PipelineError(
        f"the shards of this {type(thing).__name__} cannot be replaced; name a function of the shards instead:"
        " def make(urls): ..."
    )


def _opens_tars(stage: object) -> bool:
    return any(mark in bare_name(stage) for mark in _OPENS_TARS)


def _shuffles(stage: object) -> bool:
    """Return whether a shuffle has a buffer: webdataset writes ``shardshuffle=False`` as one without."""
    return bool(argument(stage, "bufsize", 0, default=True))


def _only_decodes(stage: object) -> bool:
    """Return whether a stage is webdataset's ``decode``, which keeps all fields, with webdataset's handlers only."""
    decoder = next(iter((*positional(stage), *named(stage).values())), None)
    handlers = getattr(decoder, "handlers", None)
    if not type(decoder).__module__.startswith("webdataset.") or not isinstance(handlers, list):
        return False
    return all(module_of(each).startswith("webdataset.") for each in handlers)


def _is_shard(value: object) -> bool:
    return isinstance(value, str | os.PathLike) and ".tar" in os.fspath(value)[-12:]
