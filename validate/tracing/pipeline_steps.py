"""Take a pipeline object apart into steps that run in turn in this process.

This imports nothing: the object brings its own webdataset or torch, if it needs them.
"""

import copy
import random
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

from .kept_state import Note, with_handler
from .stage_words import bare_name, title

Call = Callable[..., Iterable[Any]]
LEFT_OUT: Any = object()  # what a collate function of a probe returns that makes no batch of its items


@dataclass
class PipelineStep:
    """One stage, ready to run: ``make(note)`` returns the callable for one run, on a copy of the stage."""

    title: str
    make: Callable[[Note], Call]
    batch: int = 0  # input items per output item, if known; -1 if it takes batches apart
    package: str = ""  # where the stage's code comes from


@dataclass
class Chain:
    """All steps of a pipeline, innermost source first."""

    steps: list[PipelineStep] = field(default_factory=list)
    endless: bool = False  # repeats as often as requested (with_epoch, repeat, resampled shards)
    breaks: bool = False  # ...but ends after a pass without a sample (webdataset from 0.2.90 on)
    urls: frozenset[str] = frozenset()  # of a source that endlessly draws shards with replacement
    workers: int = 0  # loader processes that the object would start

    def add(self, stage: object, invoke: Callable[..., Any]) -> None:
        """Append a stage that ``invoke(stage, source)`` runs."""
        if not self.steps:
            self.urls = _resampled_urls(stage)
            self.endless = bool(self.urls)
        self.steps.append(_step(stage, invoke))

    @property
    def by_open_clip(self) -> bool:
        """Whether a stage comes from OpenCLIP's trainer."""
        return any(step.package.startswith("open_clip") for step in self.steps)


def take_apart(thing: object) -> Chain:
    """Return the steps of a DataPipeline, WebDataset, WebLoader, torch DataLoader, dataset, or list of stages.

    Raises TypeError if the object is none of these.
    """
    chain = Chain()
    _collect(thing, chain)
    if not chain.steps:
        raise TypeError("the pipeline has no stages")
    return chain


def _collect(thing: Any, chain: Chain) -> None:
    if hasattr(thing, "dataloader"):  # OpenCLIP's DataInfo
        thing = thing.dataloader
    if is_pipeline(thing):
        _collect_pipeline(thing, chain)
    elif is_loader(thing):
        _collect_loader(thing, chain)
    elif isinstance(thing, list | tuple):
        for stage in thing:
            _collect(stage, chain) if not chain.steps and _is_nested(stage) else chain.add(stage, invoke_plain)
    elif hasattr(thing, "__iter__") and not isinstance(thing, str | bytes | dict):
        chain.add(thing, invoke_plain)
    else:
        raise TypeError(f"not a pipeline: {type(thing).__name__}; give a DataPipeline, a loader or a list of stages")


def _collect_pipeline(pipeline: Any, chain: Chain) -> None:
    for index, stage in enumerate(pipeline.pipeline):
        if index == 0 and not chain.steps and _is_nested(stage):
            _collect(stage, chain)
        else:
            chain.add(stage, pipeline.invoke)
    endless, breaks = repetition(pipeline)
    if endless:
        chain.endless, chain.breaks = True, breaks and not chain.urls


def repetition(pipeline: Any) -> tuple[bool, bool]:
    """Return whether a pipeline repeats endlessly, and whether it ends all the same after a pass without a sample."""
    if getattr(pipeline, "repetitions", 1) <= sys.maxsize // 2:
        return False, False
    code = getattr(getattr(type(pipeline), "iterator", None), "__code__", None)
    return True, code is not None and "count" in code.co_varnames


def _collect_loader(loader: Any, chain: Chain) -> None:
    chain.workers = max(chain.workers, int(loader.num_workers))
    dataset = loader.dataset
    if _is_nested(dataset):
        _collect(dataset, chain)
    elif hasattr(dataset, "__getitem__") and not isinstance(dataset, sys.modules["torch.utils.data"].IterableDataset):
        chain.add(dataset, lambda d: (d[index] for index in loader.sampler))
    else:
        chain.add(dataset, invoke_plain)
    text = f"DataLoader(batch_size={loader.batch_size}, num_workers={loader.num_workers})"
    chain.steps.append(PipelineStep(text, lambda _: partial(_collated, loader), batch=loader.batch_size or 0))


def _collated(loader: Any, source: Iterable[Any]) -> Iterator[Any]:
    """Does the work of torch's DataLoader without workers."""
    yield from (batch for batch in map(loader.collate_fn, _gathered(loader, source)) if batch is not LEFT_OUT)


def _gathered(loader: Any, source: Iterable[Any]) -> Iterator[Any]:
    if loader.batch_size is None:
        yield from source
        return
    batch: list[Any] = []
    for item in source:
        batch.append(item)
        if len(batch) == loader.batch_size:
            yield batch
            batch = []
    if batch and not loader.drop_last:
        yield batch


def invoke_plain(stage: Any, *source: Iterable[Any]) -> Iterable[Any]:
    """Run one stage of a plain list: an iterable as source, an object with ``run``, or a callable."""
    if not source and not callable(stage) and hasattr(stage, "__iter__"):
        return cast("Iterable[Any]", iter(stage))
    call = stage.run if hasattr(stage, "run") else stage
    if not callable(call):
        raise TypeError(f"{type(stage).__name__} is not a valid stage")
    return cast("Iterable[Any]", call(*source))


def _step(stage: Any, invoke: Callable[..., Any]) -> PipelineStep:
    def make(note: Note) -> Call:
        own = with_handler(_copied(stage), note)
        return lambda *source: invoke(own, *source)

    function = getattr(stage, "f", None) or getattr(stage, "func", None) or stage
    package = getattr(function, "__module__", None) or type(stage).__module__
    return PipelineStep(title(stage), make, batch=_batch_size(stage), package=str(package))


def _copied(stage: Any) -> Any:
    """Return a shallow copy with its own random generators: a run does not change the stage."""
    if isinstance(stage, list | tuple | type) or not hasattr(stage, "__dict__") or hasattr(stage, "__code__"):
        return stage
    try:
        twin = copy.copy(stage)
        for name, value in vars(stage).items():
            if isinstance(value, random.Random) or type(value).__module__.startswith("numpy.random"):
                setattr(twin, name, copy.deepcopy(value))
    except Exception:  # noqa: BLE001
        return stage  # some objects refuse to be copied; a run then changes their state like a real pass
    return twin


def _batch_size(stage: Any) -> int:
    name = bare_name(stage)
    if name in ("unbatched", "unlisted"):
        return -1
    if name != "batched":
        return 0
    values = [*getattr(stage, "args", ())[:1], getattr(stage, "kw", {}).get("batchsize")]
    return next((value for value in values if isinstance(value, int)), 20)  # webdataset's default is 20


def is_pipeline(thing: object) -> bool:
    """Return whether an object is a ``wds.DataPipeline`` or made like one."""
    return isinstance(getattr(thing, "pipeline", None), list) and hasattr(thing, "invoke")


def is_loader(thing: object) -> bool:
    """Return whether an object is a torch ``DataLoader``."""
    data = sys.modules.get("torch.utils.data")
    return data is not None and isinstance(thing, data.DataLoader)


def _is_nested(stage: object) -> bool:
    return is_pipeline(stage) or is_loader(stage)


def _resampled_urls(stage: Any) -> frozenset[str]:
    """Return the shards of a source that endlessly draws them with replacement; nothing for any other source."""
    urls = getattr(stage, "urls", None)
    if getattr(stage, "nshards", 0) <= sys.maxsize // 2 or not isinstance(urls, list | tuple):
        return frozenset()
    return frozenset(url if isinstance(url, str) else str(url.get("url")) for url in urls)
