"""What a run must not change, what it observes on copies, and errors that say nothing about samples."""

import copy
import functools
import inspect
import logging
import random
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TextIO, cast

from wdsflow.text.shell import escape

from .meter import TraceRun
from .stage_words import bare_name, title

Note = Callable[[Exception, bool], None]  # the swallowed error; whether the stage continues
Handler = Callable[..., Any]


def with_handler(stage: Any, note: Note) -> Any:
    """Return a stage whose handler also reports to ``note`` which errors it swallows.

    It knows webdataset's curried filters, ``functools.partial``, functions with a ``handler`` parameter, and objects
    with a ``handler`` attribute. ``stage`` itself stays unchanged; it is returned if it has no handler.
    """
    if callable(getattr(stage, "f", None)) and isinstance(getattr(stage, "kw", None), dict):
        found = _bound(stage.f, (None, *stage.args), stage.kw)
        if found is None:
            return stage
        twin = copy.copy(stage)
        twin.args, twin.kw = _replaced(stage.args, stage.kw, found, note, skip=1)
        return twin
    if isinstance(stage, functools.partial):
        found = _bound(stage.func, (*stage.args, None), stage.keywords)
        if found is None:
            return stage
        args, keywords = _replaced(stage.args, stage.keywords, found, note, skip=0)
        return functools.partial(stage.func, *args, **keywords)
    if inspect.isroutine(stage):
        found = _bound(stage, (None,), {})
        return stage if found is None else functools.partial(stage, handler=_listening(found[0], note))
    handler = getattr(stage, "handler", None)
    if callable(handler) and "handler" in getattr(stage, "__dict__", {}):
        twin = copy.copy(stage)
        twin.handler = _listening(handler, note)
        return twin
    return stage


def continues(stage: Any) -> bool:
    """Return whether a stage of webdataset drops the samples for which its code raises an error, and goes on.

    That is known of handlers whose names end as those of webdataset do, such as ``log_and_continue`` of OpenCLIP.
    """
    found = None
    if callable(getattr(stage, "f", None)) and isinstance(getattr(stage, "kw", None), dict):
        found = _bound(stage.f, (None, *stage.args), stage.kw)
    ours = str(getattr(getattr(stage, "f", None), "__module__", "")).startswith("webdataset.")
    return ours and found is not None and str(getattr(found[0], "__name__", "")).endswith("_and_continue")


def _bound(function: Any, args: tuple[Any, ...], kw: dict[str, Any]) -> tuple[Handler, int] | None:
    """The handler that a call would use, and its position among the positional parameters."""
    try:
        signature = inspect.signature(function)
        bound = signature.bind(*args, **kw)
    except (TypeError, ValueError):
        return None
    if "handler" not in signature.parameters:
        return None
    handler = bound.arguments.get("handler", signature.parameters["handler"].default)
    return (handler, list(signature.parameters).index("handler")) if callable(handler) else None


def _replaced(
    args: tuple[Any, ...], kw: dict[str, Any], found: tuple[Handler, int], note: Note, skip: int
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    handler, position = found
    place = position - skip
    if "handler" not in kw and 0 <= place < len(args) and args[place] is handler:
        return (*args[:place], _listening(handler, note), *args[place + 1 :]), kw
    return args, {**kw, "handler": _listening(handler, note)}


def _listening(handler: Handler, note: Note) -> Handler:
    def listen(error: Exception, *rest: Any, **kw: Any) -> Any:
        verdict = handler(error, *rest, **kw)  # raises if the handler passes the error on
        note(error, bool(verdict))
        return verdict

    return listen


class _Ear(logging.Handler):
    """Counts the warnings that a stage logs while it runs: they suggest errors that it swallows without a handler."""

    def __init__(self, run: TraceRun, thread: threading.Thread) -> None:
        super().__init__(logging.WARNING)
        self.run, self.thread = run, thread

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread == self.thread.ident:
            try:
                note_log(self.run, record.getMessage())
            except Exception:  # noqa: BLE001 - a log call with wrong arguments is no reason to end a run
                note_log(self.run, str(record.msg))


def note_log(run: TraceRun, message: str) -> None:
    """Attribute a log line or warning to the running stage."""
    seen = run.seen[run.owner]
    seen.logged += 1
    seen.first_log = seen.first_log or escape(message, 200)


@contextmanager
def listening(run: TraceRun, thread: threading.Thread) -> Iterator[None]:
    """Count logs and warnings of ``thread``; restore loggers and warnings afterwards."""
    ear, show = _Ear(run, thread), warnings.showwarning

    def showwarning(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if threading.current_thread() is thread:
            note_log(run, f"{category.__name__}: {message}")
        show(message, category, filename, lineno, file, line)

    root = logging.getLogger()
    root.addHandler(ear)
    warnings.showwarning = showwarning
    try:
        yield
    finally:
        root.removeHandler(ear)
        if warnings.showwarning is showwarning:
            warnings.showwarning = show


@contextmanager
def same_random_state() -> Iterator[None]:
    """Restore the global random generators of Python, NumPy and torch."""
    undo: list[tuple[Callable[[Any], Any], Any]] = [(random.setstate, random.getstate())]
    if numpy := sys.modules.get("numpy"):
        undo.append((numpy.random.set_state, numpy.random.get_state()))
    if torch := sys.modules.get("torch"):
        undo.append((torch.set_rng_state, torch.get_rng_state()))
    try:
        yield
    finally:
        for restore, state in undo:
            restore(state)


def state_of_chance() -> list[object]:
    """Return the states of the global generators of Python, numpy and torch, as far as these are imported."""
    states: list[object] = [random.getstate()]
    if numpy := sys.modules.get("numpy"):
        states.append(str(numpy.random.get_state()))
    if torch := sys.modules.get("torch"):
        states.append(torch.get_rng_state().numpy().tobytes())
    return states


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
