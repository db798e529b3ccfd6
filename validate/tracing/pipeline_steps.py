"""The steps of a pipeline: stages that are run one by one and put together again."""

import copy
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import cast

from .pipeline_stages import (
    Call,
    TorchLoader,
    WdsPipeline,
    bare_name,
    batch_size,
    draws_shards,
    ends_at_empty_pass,
    is_loader,
    is_nested,
    is_pipeline,
    module_of,
    repeats_endlessly,
    title,
)
from .stage_handlers import Note, with_handler

# Makes a pipeline in which these calls take the place of all stages.
Assemble = Callable[["Sequence[Call]"], Iterable[object]]
# Iterates over a DataLoader.
RunLoader = Callable[[TorchLoader], Iterable[object]]


@dataclass
class PipelineStep:
    """One stage, ready to run.

    ``make(note)`` returns the callable for one run, on a copy of the stage.
    """

    title: str
    make: Callable[[Note], Call]
    stage: object
    # Input items per output item, if known; -1 if it takes batches apart.
    batch: int = 0
    # Package of the stage's code.
    package: str = ""


@dataclass
class Chain:
    """All steps of a pipeline, innermost source first."""

    steps: list[PipelineStep] = field(default_factory=list)
    # Repeats as often as requested (with_epoch, repeat, resampled shards).
    endless: bool = False
    # ...but ends after a pass without a sample (webdataset from 0.2.90 on).
    ends_at_empty_pass: bool = False
    # Of a source that endlessly draws shards with replacement.
    urls: frozenset[str] = frozenset()
    # Loader processes that the object would start.
    workers: int = 0
    # Runs a DataLoader as one step; None: its stages run without it.
    run_loader: RunLoader | None = None
    # Makes the pipeline again, which then repeats and ends as the object does.
    assemble: Assemble | None = None

    def add(self, stage: object, invoke: Call) -> None:
        """Append a stage that ``invoke(stage, source)`` runs."""
        if not self.steps:
            self.urls = _resampled_urls(stage)
            self.endless = bool(self.urls)

        def make(note: Note) -> Call:
            if self.run_loader is not None and is_loader(stage):
                return partial(self.run_loader, stage)
            return partial(invoke, with_handler(_copied(stage), note))

        name = bare_name(stage)
        batch = -1 if name in ("unbatched", "unlisted") else batch_size(stage)
        package = module_of(getattr(stage, "f", None) or getattr(stage, "func", None) or stage)
        self.steps.append(PipelineStep(title(stage), make, stage, batch, package))

    @property
    def by_open_clip(self) -> bool:
        """Whether a stage comes from OpenCLIP's trainer."""
        return any(step.package.startswith("open_clip") for step in self.steps)


def take_apart(thing: object, run_loader: RunLoader | None = None) -> Chain:
    """Return the steps of a pipeline.

    The pipeline is a DataPipeline, WebDataset, WebLoader, torch DataLoader, dataset, or list of
    stages.

    Args:
        thing: the pipeline; it stays unchanged.
        run_loader: iterates over a DataLoader that is the source, as one step. By default the
            stages of its dataset are steps, and another does the work of the loader without its
            worker processes.

    Raises:
        TypeError: the object is none of these.
    """
    chain = Chain(run_loader=run_loader)
    chain.assemble = _collect(thing, chain)
    return chain


def _collect(thing: object, chain: Chain) -> Assemble:
    """Add the steps of an object to an empty chain.

    Returns the function that assembles the object again from measured steps.
    """
    # Of OpenCLIP's DataInfo.
    thing = getattr(thing, "dataloader", thing)
    if is_pipeline(thing):
        return _collect_pipeline(thing, chain)
    if is_loader(thing):
        return _collect_loader(thing, chain)
    if isinstance(thing, list | tuple):
        return _collect_list(thing, chain)
    if not hasattr(thing, "__iter__") or isinstance(thing, str | bytes | dict):
        raise TypeError(
            f"not a pipeline: {type(thing).__name__}; give a DataPipeline, a loader or a list of stages"
        )
    return _collect_list([thing], chain)


def _collect_pipeline(pipeline: WdsPipeline, chain: Chain) -> Assemble:
    inner, later = _collect_stages(pipeline.pipeline, pipeline.invoke, chain)
    if repeats_endlessly(pipeline):
        chain.endless = True
        # A source that draws shards never ends a pass.
        chain.ends_at_empty_pass = ends_at_empty_pass(pipeline) and not chain.urls

    def assemble(calls: Sequence[Call]) -> Iterable[object]:
        before = len(calls) - later
        source = calls[0] if inner is None else inner(calls[:before])
        pipeline_copy = copy.copy(pipeline)
        pipeline_copy.pipeline = [source, *calls[before:]]
        return cast("Iterable[object]", pipeline_copy)

    return assemble


def _collect_list(stages: Sequence[object], chain: Chain) -> Assemble:
    inner, later = _collect_stages(stages, invoke_plain, chain)

    def assemble(calls: Sequence[Call]) -> Iterable[object]:
        before = len(calls) - later
        items = calls[0]() if inner is None else inner(calls[:before])
        for call in calls[before:]:
            items = call(items)
        return items

    return assemble


def _collect_stages(
    stages: Sequence[object], invoke: Call, chain: Chain
) -> tuple[Assemble | None, int]:
    """Add stages to a chain.

    Returns the function that assembles the first stage again, None if it has no stages of its own,
    and the number of the other stages.
    """
    if not stages:
        raise TypeError("the pipeline has no stages")
    source, *later = stages
    is_one_step = chain.run_loader is not None and is_loader(source)
    inner: Assemble | None = None
    if is_nested(source) and not is_one_step:
        inner = _collect(source, chain)
    else:
        chain.add(source, invoke)
    for stage in later:
        chain.add(stage, invoke)
    return inner, len(later)


def _collect_loader(loader: TorchLoader, chain: Chain) -> Assemble:
    if chain.run_loader is not None:
        return _collect_list([loader], chain)
    chain.workers = max(chain.workers, int(loader.num_workers))
    dataset = loader.dataset
    if is_nested(dataset):
        _collect(dataset, chain)
    elif hasattr(dataset, "__getitem__") and not isinstance(
        dataset, sys.modules["torch.utils.data"].IterableDataset
    ):
        chain.add(dataset, lambda items: (items[index] for index in loader.sampler))
    else:
        chain.add(dataset, invoke_plain)
    chain.steps.append(
        PipelineStep(
            title(loader), lambda _: partial(_collated, loader), loader, batch_size(loader)
        )
    )
    return lambda calls: calls[-1](*calls[:-1])


def _collated(loader: TorchLoader, source: Iterable[object]) -> Iterator[object]:
    """Does the work of torch's DataLoader without workers."""
    items: list[object] = []
    for item in source:
        items.append(item)
        if loader.batch_size is None or len(items) == loader.batch_size:
            yield loader.collate_fn(item if loader.batch_size is None else items)
            items = []
    if items and not loader.drop_last:
        yield loader.collate_fn(items)


def invoke_plain(stage: object, *source: Iterable[object]) -> Iterable[object]:
    """Run one stage of a plain list.

    The stage is an iterable as source, an object with ``run``, or a callable.
    """
    if not source and not callable(stage) and isinstance(stage, Iterable):
        return iter(stage)
    call: object = getattr(stage, "run", stage)
    if not callable(call):
        raise TypeError(f"{type(stage).__name__} is not a valid stage")
    output: Iterable[object] = call(*source)
    return output


def _copied(stage: object) -> object:
    """Return a shallow copy with its own random generators: a run does not change the stage."""
    if (
        isinstance(stage, list | tuple | type)
        or not hasattr(stage, "__dict__")
        or hasattr(stage, "__code__")
    ):
        return stage
    try:
        stage_copy = copy.copy(stage)
        for name, value in vars(stage).items():
            if isinstance(value, random.Random) or type(value).__module__.startswith(
                "numpy.random"
            ):
                setattr(stage_copy, name, copy.deepcopy(value))
    except Exception:  # noqa: BLE001
        # Some objects refuse to be copied; a run then changes their state like a real pass.
        return stage
    return stage_copy


def _resampled_urls(stage: object) -> frozenset[str]:
    """Return the shards that a source draws endlessly, with replacement.

    Empty for any other source.
    """
    urls = getattr(stage, "urls", None)
    if not draws_shards(stage) or not isinstance(urls, list | tuple):
        return frozenset()
    return frozenset(url if isinstance(url, str) else str(url.get("url")) for url in urls)
