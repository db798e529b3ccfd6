"""The process in which the user's loader runs: it builds the loader for each request, and reports samples and states."""

import importlib
import multiprocessing
import os
import pickle
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import IO, cast

from wdsflow.engines.keeper import DONE, continue_in_forks
from wdsflow.engines.peer import receive, send, take_line

from ..tracing.errors import error_text, line_of, machine_fault
from ..tracing.pipeline_steps import is_nested
from .iterables import Items, is_map_style
from .load_pipeline import PipelineError, build, check_made, failure_text, find
from .loader_parts import (
    DEFINES,
    SEEDS,
    Stateful,
    globals_of,
    libraries_of,
    line_in,
    loaders_in,
    repeats,
    stateful_part,
    unpicklable_parts,
    with_workers,
)
from .loader_process import END, LoaderFacts, LoaderRequest, LoaderRun, Place, SavedState, Stage
from .rows import rows_of
from .user_process import bound_memory, forget_ranks


def serve(spec: str, libraries: Sequence[str]) -> None:
    """Import libraries, then run the loader as each request on the line says, in a fork, and report each step there."""
    line = take_line()
    bound_memory()
    for name in libraries:
        importlib.import_module(name)
    continue_in_forks()
    opened = set[str]()
    sys.addaudithook(lambda event, values: opened.add(str(values[0])) if event == "open" else None)
    if "numpy" in sys.modules:
        # A fork has the state of its parent; Python's own generator is seeded again.
        sys.modules["numpy"].random.seed()
    # Without one, at the end, this fails, and the other process ends too.
    request: LoaderRequest = receive(line)
    serving = _Serving(request, line)
    try:
        serving.run(spec, libraries)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's code may raise anything
        wrong, lacks = isinstance(error, PipelineError), machine_fault(error)
        text = str(error) if wrong else failure_text(error, "called")
        serving.found.how, serving.found.line = "raised", "" if wrong else line_of(error)
        serving.found.error = f"{text}; {lacks}: validate where it will train" if lacks else text
    real = {os.path.realpath(path) for path in tuple(opened)}
    serving.found.opened = frozenset(url for url in request.urls if os.path.realpath(url) in real)
    send(line, serving.found)
    # Threads of the user's loader end with the process, and its workers soon.
    os._exit(DONE)


def _set_rank(request: LoaderRequest) -> None:
    """Set the variables that torchrun sets, and none of other launchers."""
    forget_ranks()
    os.environ |= dict.fromkeys(("RANK", "LOCAL_RANK"), str(request.rank))
    os.environ |= dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), str(request.ranks))
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(request.port)}


def _join(request: LoaderRequest) -> str:
    """Take part in the group of ranks, as a training script does before it makes a loader; return why not.

    One that makes its group together with the loader then gets this one.
    """
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available():
        return ""
    begin: Callable[..., object] = distributed.init_process_group
    place = {"init_method": f"file://{request.meeting}"} if request.meeting else {"store": distributed.HashStore()}
    try:
        seconds = timedelta(seconds=60)
        # By the script, when it is imported.
        if not distributed.is_initialized():
            begin("gloo", timeout=seconds, rank=request.rank, world_size=request.ranks, **place)
    except Exception as error:  # noqa: BLE001 - of this machine's network
        return error_text(error)

    def begin_once(*arguments: object, **options: object) -> None:
        if not distributed.is_initialized():
            begin(*arguments, **options)

    for module in list(sys.modules.values()):
        for name in [name for name, value in list(vars(module).items()) if value is begin]:
            vars(module)[name] = begin_once
    return ""


class _Serving:
    """One run, in its process."""

    def __init__(self, request: LoaderRequest, line: IO[bytes]) -> None:
        self.request, self.line, self.found = request, line, LoaderRun()
        self.stateful: Stateful | None = None
        # By a DataLoader.
        self.batched = False
        # States as they were taken.
        self.kept: list[tuple[Place, object]] = []

    def tell(self, stage: Stage) -> None:
        """Report that the run has come so far, without the samples."""
        self.found.stage = stage
        send(self.line, replace(self.found, epochs=[], states=[]))

    def run(self, spec: str, libraries: Sequence[str]) -> None:
        """Build the loader, load the state, and read the epochs."""
        request, found = self.request, self.found
        if request.method:
            multiprocessing.set_start_method(request.method, force=True)
            # Imported once, not by each.
            multiprocessing.set_forkserver_preload(["__main__", *libraries])
        _set_rank(request)
        before, made_by = dict(os.environ), find(spec)
        # libraries may read what it sets.
        found.libraries = libraries_of(made_by) if before == os.environ else ()
        loader = self._built(made_by)
        until = time.monotonic() + request.seconds
        for epoch in range(request.first, request.first + request.epochs):
            set_epoch = _set_epoch(loader)
            if set_epoch is not None:
                # As training does.
                set_epoch(epoch)
            if epoch == request.first and request.state is not None and self.stateful is not None:
                self.tell("load_state_dict")
                self.stateful.load_state_dict(pickle.loads(request.state))  # noqa: S301 - of our own process
            try:
                found.whole.append(self._read(loader, epoch, until))
            except Exception:
                if request.method not in ("", "fork"):
                    found.unpicklable = tuple(unpicklable_parts(loader))
                raise
            if not found.whole[-1]:
                break
        taken = {saved.place: saved.data for saved in found.states}
        found.shared = [place for place, state in self.kept if pickle.dumps(state) != taken[place]]
        found.how = "ended"

    def _built(self, made_by: object) -> object:
        request, found = self.request, self.found
        self.tell("building")
        found.no_group = _join(request)
        before = globals_of(made_by)
        built = build(made_by, request.urls)
        changed = tuple(name for name, value in globals_of(made_by).items() if before.get(name) != value)
        check_made(made_by, built)
        # Of OpenCLIP's DataInfo.
        built = getattr(built, "dataloader", built)
        loaders, (path, thing) = [each for _, each in loaders_in(built)], stateful_part(built)
        self.batched = any(each.batch_size is not None for each in loaders)
        torch = sys.modules.get("torch.utils.data")
        resampled, repeated = repeats(built)
        found.facts = LoaderFacts(
            kind=type(built).__name__,
            workers=max((int(each.num_workers) for each in loaders), default=None),
            can_have_workers=bool(loaders) or (torch is not None and isinstance(built, torch.Dataset)),
            own_method=any(getattr(each, "multiprocessing_context", None) is not None for each in loaders),
            stateful=path,
            map_style=is_map_style(built) or any(is_map_style(each.dataset) for each in loaders),
            repeats=resampled or repeated,
            resampled=resampled,
            lines={
                "sets": line_in(made_by, made_by, rf"(?!\s*global\b)[^#]*\b({'|'.join(changed)})\b"),
                "seeds": line_in(built, made_by, SEEDS),
                "reads": line_in(built, made_by, DEFINES.format("__iter__")),
                "saves": line_in(thing, made_by, DEFINES.format("state_dict")),
                "loads": line_in(thing, made_by, DEFINES.format("load_state_dict")),
            },
            set_globals=changed,
        )
        self.stateful = thing
        if request.workers is not None:
            built = with_workers(built, request.workers)
        return Items(built) if is_map_style(built) and not is_nested(built) else built

    def _read(self, loader: object, epoch: int, until: float) -> bool:
        """Note the samples and states of an epoch; return whether it ended by itself in time."""
        items: list[list[dict[str, str]]] = []
        self.found.epochs.append(items)
        self._save((epoch, 0))
        self.tell("reading")
        for item in cast("Iterable[object]", loader):
            items.append(rows_of(item, self.request.keys, batched=self.batched))
            self._save((epoch, len(items)))
            self.tell("reading")
            if sum(map(len, items)) >= self.request.most or time.monotonic() > until:
                return False
        self._save((epoch, END))
        return True

    def _save(self, place: Place) -> None:
        if place not in self.request.save_at or self.stateful is None:
            return
        self.tell("state_dict")
        state = self.stateful.state_dict()
        self.found.states.append(SavedState(place, pickle.dumps(state)))
        # Otherwise a later change would show nothing.
        if pickle.dumps(state) == self.found.states[-1].data:
            self.kept.append((place, state))


def _set_epoch(loader: object) -> Callable[[int], object] | None:
    """Return what a training script calls at the start of an epoch: of the loader, its sampler or its dataset."""
    for thing in (loader, getattr(loader, "sampler", None), getattr(loader, "dataset", None)):
        if callable(found := getattr(thing, "set_epoch", None)):
            return found  # type: ignore[no-any-return]
    return None
