"""The stages of a pipeline: their names and arguments, and copies of them that run individually."""

import copy
import inspect
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Literal, Protocol, SupportsInt, TypeGuard, cast

from wdsflow.text.shell import escape

_CUT = 60
# Of webdataset's batched.
_USUAL_BATCH = 20
# The swallowed error; whether the stage continues.
Note = Callable[[Exception, bool], object]
Handler = Callable[..., object]
Call = Callable[..., Iterable[object]]
# Puts calls in the place of all stages.
Assemble = Callable[["Sequence[Call]"], Iterable[object]]


class WdsPipeline(Protocol):
    """A ``wds.DataPipeline``."""

    pipeline: list[object]
    invoke: Call


class TorchLoader(Protocol):
    """A torch ``DataLoader``."""

    dataset: object
    num_workers: int
    batch_size: int | None
    drop_last: bool
    sampler: Iterable[object]
    batch_sampler: Iterable[Iterable[object]] | None
    collate_fn: Callable[[object], object]


RunLoader = Callable[[TorchLoader], Iterable[object]]


def is_pipeline(thing: object) -> TypeGuard[WdsPipeline]:
    """Return whether an object is a ``wds.DataPipeline`` or has its structure."""
    return isinstance(getattr(thing, "pipeline", None), list) and hasattr(thing, "invoke")


def is_loader(thing: object) -> TypeGuard[TorchLoader]:
    """Return whether an object is a torch ``DataLoader``."""
    data = sys.modules.get("torch.utils.data")
    return data is not None and isinstance(thing, data.DataLoader)


def is_nested(stage: object) -> bool:
    """Return whether an object has stages of its own."""
    return is_pipeline(stage) or is_loader(stage)


def bare_name(stage: object) -> str:
    """Return the usual name of a stage: ``select`` for webdataset's curried ``_select``.

    >>> bare_name(partial(sorted, reverse=True)), bare_name(["a.tar"])
    ('sorted', 'list')
    """
    inner = getattr(stage, "f", None) if hasattr(stage, "kw") else getattr(stage, "func", None)
    function = inner if callable(inner) else stage
    name = getattr(function, "__name__", None) or type(function).__name__
    return escape(name.strip("_") or name, _CUT)


def title(stage: object) -> str:
    """Describe a stage as code, without its handler: ``batched(64, partial=False)``."""
    if is_loader(stage):
        return f"DataLoader(batch_size={stage.batch_size}, num_workers={stage.num_workers})"
    positional = getattr(stage, "args", None)
    named = getattr(stage, "kw", getattr(stage, "keywords", None))
    if not isinstance(positional, tuple) or not isinstance(named, dict):
        return bare_name(stage)
    shown = {name: value for name, value in named.items() if name not in ("handler", "collation_fn")}
    parts = [*map(_brief, positional), *(f"{name}={_brief(each)}" for name, each in shown.items() if each is not None)]
    return escape(f"{bare_name(stage)}({', '.join(parts)})", _CUT)


def _brief(value: object) -> str:
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return repr(value)
    if isinstance(value, list | tuple | dict | set) and len(value) > 3:
        return f"{type(value).__name__} of {len(value)}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_brief(item) for item in value) + "]"
    name = getattr(value, "__name__", None)
    return name if isinstance(name, str) else type(value).__name__


def positional(stage: object) -> tuple[object, ...]:
    """Return the positional arguments of a stage, after the source."""
    values = getattr(stage, "args", ())
    return values if isinstance(values, tuple) else ()


def named(stage: object) -> dict[str, object]:
    """Return the named arguments of a curried stage of webdataset."""
    values = getattr(stage, "kw", {})
    return values if isinstance(values, dict) else {}


def argument(stage: object, name: str, place: int, default: object = None) -> object:
    """Return an argument of a stage by name or position, or the default."""
    values = positional(stage)
    return values[place] if len(values) > place else named(stage).get(name, default)


def batch_size(stage: object) -> int:
    """Return how many items a stage or a DataLoader puts into one; 0 if it makes no batches."""
    if is_loader(stage):
        return stage.batch_size or 0
    if bare_name(stage) != "batched":
        return 0
    size = argument(stage, "batchsize", 0)
    return int(size) if isinstance(size, SupportsInt) else _USUAL_BATCH


def _call_of(stage: object) -> tuple[Handler, Call] | None:
    """Return the handler of a curried filter of webdataset, a partial or a function, and a function to replace it."""
    function: object = getattr(stage, "f", None)
    before: tuple[object, ...] = ()
    after, options = positional(stage), named(stage)
    if isinstance(stage, partial):
        function, before, after, options = stage.func, stage.args, (), stage.keywords
    elif inspect.isroutine(stage):
        function = stage
    elif not callable(function) or not hasattr(stage, "kw"):
        return None
    try:
        signature = inspect.signature(function)
        bound = signature.bind(*before, None, *after, **options)
    except (TypeError, ValueError):
        return None
    if "handler" not in signature.parameters:
        return None
    handler = bound.arguments.get("handler", signature.parameters["handler"].default)

    def run(other: Handler, *source: object) -> Iterable[object]:
        bound = signature.bind(*before, *source, *after, **options)
        bound.arguments["handler"] = other
        found: Iterable[object] = function(*bound.args, **bound.kwargs)
        return found

    return (handler, run) if callable(handler) else None


def with_handler(stage: object, note: Note) -> object:
    """Return a stage whose handler also reports to ``note`` which errors it swallows.

    It knows webdataset's curried filters, ``functools.partial``, functions with a ``handler`` parameter, and objects
    with a ``handler`` attribute. ``stage`` itself stays unchanged; it is returned if it has no handler.
    """

    def listen(handler: Handler, error: Exception, *rest: object, **more: object) -> object:
        # Raises if the handler passes the error on.
        verdict = handler(error, *rest, **more)
        note(error, bool(verdict))
        return verdict

    if call := _call_of(stage):
        handler, run = call
        return partial(run, partial(listen, handler))
    own = vars(stage).get("handler") if hasattr(stage, "__dict__") else None
    if not callable(own) or inspect.isroutine(stage):
        return stage
    twin = copy.copy(stage)
    setattr(twin, "handler", partial(listen, own))  # noqa: B010 - any object may have one
    return twin


def module_of(thing: object) -> str:
    """Return the module of a function, or of the class of an object."""
    return str(getattr(thing, "__module__", None) or type(thing).__module__)


_GENERATORS = {
    "random": {"get": "getstate", "set": "setstate"},
    "numpy": {"get": "random.get_state", "set": "random.set_state"},
    "torch": {"get": "get_rng_state", "set": "set_rng_state"},
}


def _of_generators(what: Literal["get", "set"]) -> list[Callable[..., object]]:
    """Return the functions of the global generators of Python, numpy and torch, as far as these are imported."""
    loaded = ((sys.modules.get(name), paths) for name, paths in _GENERATORS.items())
    return [attrgetter(paths[what])(module) for module, paths in loaded if module is not None]


@contextmanager
def same_random_state() -> Iterator[None]:
    """Restore the global random generators afterwards."""
    states = [(restore, get()) for get, restore in zip(_of_generators("get"), _of_generators("set"), strict=True)]
    try:
        yield
    finally:
        for restore, state in states:
            restore(state)


@dataclass
class PipelineStep:
    """One stage, ready to run: ``make(note)`` returns the callable for one run, on a copy of the stage."""

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
    breaks: bool = False
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
    """Return the steps of a DataPipeline, WebDataset, WebLoader, torch DataLoader, dataset, or list of stages.

    Args:
        thing: the pipeline; it stays unchanged.
        run_loader: iterates over a DataLoader that is the source, as one step. By default the stages of its dataset are
            steps, and another does the work of the loader without its worker processes.

    Raises:
        TypeError: the object is none of these.
    """
    chain = Chain(run_loader=run_loader)
    chain.assemble = _collect(thing, chain)
    return chain


def _collect(thing: object, chain: Chain) -> Assemble:
    """Add the steps of an object to an empty chain; return the function that makes it again of measured steps."""
    # Of OpenCLIP's DataInfo.
    thing = getattr(thing, "dataloader", thing)
    if is_pipeline(thing):
        return _collect_pipeline(thing, chain)
    if is_loader(thing):
        return _collect_loader(thing, chain)
    if isinstance(thing, list | tuple):
        return _collect_list(thing, chain)
    if not hasattr(thing, "__iter__") or isinstance(thing, str | bytes | dict):
        raise TypeError(f"not a pipeline: {type(thing).__name__}; give a DataPipeline, a loader or a list of stages")
    return _collect_list([thing], chain)


def _collect_pipeline(pipeline: WdsPipeline, chain: Chain) -> Assemble:
    inner, later = _collect_stages(pipeline.pipeline, pipeline.invoke, chain)
    endless, breaks = repetition(pipeline)
    if endless:
        chain.endless, chain.breaks = True, breaks and not chain.urls

    def assemble(calls: Sequence[Call]) -> Iterable[object]:
        before = len(calls) - later
        twin = copy.copy(pipeline)
        twin.pipeline = [calls[0] if inner is None else inner(calls[:before]), *calls[before:]]
        return cast("Iterable[object]", twin)

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


def _collect_stages(stages: Sequence[object], invoke: Call, chain: Chain) -> tuple[Assemble | None, int]:
    """Add stages; return what makes the first one again, if that has stages of its own, and the number of the others."""
    if not stages:
        raise TypeError("the pipeline has no stages")
    source, *others = stages
    whole = chain.run_loader is not None and is_loader(source)
    inner = _collect(source, chain) if is_nested(source) and not whole else None
    for stage in stages if inner is None else others:
        chain.add(stage, invoke)
    return inner, len(others)


def repetition(pipeline: object) -> tuple[bool, bool]:
    """Return whether a pipeline repeats endlessly, and whether it still ends after a pass without a sample."""
    if getattr(pipeline, "repetitions", 1) <= sys.maxsize // 2:
        return False, False
    code = getattr(getattr(type(pipeline), "iterator", None), "__code__", None)
    return True, code is not None and "count" in code.co_varnames


def _collect_loader(loader: TorchLoader, chain: Chain) -> Assemble:
    if chain.run_loader is not None:
        return _collect_list([loader], chain)
    chain.workers = max(chain.workers, int(loader.num_workers))
    dataset = loader.dataset
    if is_nested(dataset):
        _collect(dataset, chain)
    elif hasattr(dataset, "__getitem__") and not isinstance(dataset, sys.modules["torch.utils.data"].IterableDataset):
        chain.add(dataset, lambda items: (items[index] for index in loader.sampler))
    else:
        chain.add(dataset, invoke_plain)
    chain.steps.append(PipelineStep(title(loader), lambda _: partial(_collated, loader), loader, batch_size(loader)))
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
    """Run one stage of a plain list: an iterable as source, an object with ``run``, or a callable."""
    if not source and not callable(stage) and isinstance(stage, Iterable):
        return iter(stage)
    call: object = getattr(stage, "run", stage)
    if not callable(call):
        raise TypeError(f"{type(stage).__name__} is not a valid stage")
    found: Iterable[object] = call(*source)
    return found


def _copied(stage: object) -> object:
    """Return a shallow copy with its own random generators: a run does not change the stage."""
    if isinstance(stage, list | tuple | type) or not hasattr(stage, "__dict__") or hasattr(stage, "__code__"):
        return stage
    try:
        twin = copy.copy(stage)
        for name, value in vars(stage).items():
            if isinstance(value, random.Random) or type(value).__module__.startswith("numpy.random"):
                setattr(twin, name, copy.deepcopy(value))
    except Exception:  # noqa: BLE001
        # Some objects refuse to be copied; a run then changes their state like a real pass.
        return stage
    return twin


def draws_shards(source: object) -> bool:
    """Return whether a source of webdataset draws shards with replacement, without end."""
    count = getattr(source, "nshards", 0)
    return isinstance(count, int) and count > sys.maxsize // 2


def _resampled_urls(stage: object) -> frozenset[str]:
    """Return the shards of a source that endlessly draws them with replacement; empty for any other source."""
    urls = getattr(stage, "urls", None)
    if not draws_shards(stage) or not isinstance(urls, list | tuple):
        return frozenset()
    return frozenset(url if isinstance(url, str) else str(url.get("url")) for url in urls)
