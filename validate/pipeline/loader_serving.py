"""The process in which the user's loader runs: it builds the loader for each request, and reports samples and states."""

import math
import multiprocessing
import os
import pickle
import sys
import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import IO, cast

from wdsflow.engines.peer import receive, send, take_line

from ..tracing.meter import error_text, line_of
from ..tracing.pipeline_steps import is_nested
from .load_pipeline import PipelineError, build, failure_text, find
from .loader_parts import globals_of, line_in, loaders_in, repeats, stateful_part, unpicklable_parts, with_workers
from .loader_process import END, LoaderFacts, LoaderRequest, Place, SavedState
from .probe_process import RANKS, bound_memory
from .rewire import check_made
from .rows import rows_of
from .stand_ins import Items, is_map_style


def serve(spec: str) -> None:
    """Run the loader as each request on the line says, and report each step there."""
    line = take_line()
    bound_memory()
    tell = _Teller(line)
    while True:
        try:
            request: LoaderRequest = receive(line)
        except EOFError:
            os._exit(0)  # threads and workers of the user's loader end with the process
        if request.method:
            multiprocessing.set_start_method(request.method, force=True)
        _set_rank(request)
        for again in (False, True):
            try:
                _Serving(spec, request, tell, again=again).run()
            except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's code may raise anything
                if not again and _changed_group(error):
                    tell("epochs", [])
                    continue
                wrong = isinstance(error, PipelineError)
                tell("error", str(error) if wrong else failure_text(error, "called"))
                tell("line", "" if wrong else line_of(error))
                tell("how", "raised")
            break
        tell("done", None)


class _Teller:
    """Reports to the process that asked; workers that were forked from this one report nothing."""

    def __init__(self, line: IO[bytes]) -> None:
        self.line, self.process = line, os.getpid()

    def __call__(self, kind: str, value: object) -> None:
        if os.getpid() == self.process:
            send(self.line, (kind, value))


def _set_rank(request: LoaderRequest) -> None:
    """Set the variables that torchrun sets, and none of other launchers."""
    for name in RANKS:
        os.environ.pop(name, None)
    os.environ |= dict.fromkeys(("RANK", "LOCAL_RANK"), str(request.rank))
    os.environ |= dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), str(request.ranks))
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(request.port)}


def _join(request: LoaderRequest) -> str:
    """Take part in the group of ranks, as a training script does before it makes a loader; return why not."""
    distributed = sys.modules.get("torch.distributed")
    if request.ranks == 1 or distributed is None or not distributed.is_available() or distributed.is_initialized():
        return ""
    place = {"init_method": f"file://{request.meeting}", "rank": request.rank, "world_size": request.ranks}
    try:
        distributed.init_process_group("gloo", timeout=timedelta(seconds=60), **place)
    except Exception as error:  # noqa: BLE001 - of this machine's network
        return error_text(error)
    return ""


def _changed_group(error: BaseException) -> bool:
    """Make or end the group of torch.distributed if the loader asks for one, or makes its own; return whether it did."""
    text, distributed = str(error), sys.modules.get("torch.distributed")
    if distributed is None or "process group" not in text:
        return False
    if "twice" in text:
        distributed.destroy_process_group()
    elif not distributed.is_initialized():
        distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    else:
        return False
    return True


class _Serving:
    """One run, in its process."""

    def __init__(self, spec: str, request: LoaderRequest, tell: _Teller, *, again: bool) -> None:
        self.spec, self.request, self.tell, self.again = spec, request, tell, again
        self.until = math.inf
        self.kept: list[tuple[Place, object, bytes]] = []
        self.stateful: object = None

    def run(self) -> None:
        """Build the loader, load the state, and read the epochs."""
        request, tell = self.request, self.tell
        loader = self._built()
        self.until = time.monotonic() + request.seconds
        for epoch in range(request.first, request.first + request.epochs):
            set_epoch = _set_epoch(loader)
            if set_epoch is not None:
                set_epoch(epoch)  # as training does
            if epoch == request.first and request.state is not None:
                tell("stage", "load_state_dict")
                self.stateful.load_state_dict(pickle.loads(request.state))  # type: ignore[attr-defined]  # noqa: S301 - of our own process
            tell("epoch", epoch)
            self._save(epoch, 0)
            tell("stage", "reading")
            try:
                if not self._read(loader, epoch):
                    break
            except Exception:
                if request.method not in ("", "fork"):
                    tell("unpicklable", tuple(unpicklable_parts(loader)))
                raise
        tell("shared", [place for place, state, data in self.kept if pickle.dumps(state) != data])

    def _built(self) -> object:
        request, tell = self.request, self.tell
        made_by = find(self.spec)
        tell("stage", "building")
        if not self.again:
            tell("no_group", _join(request))
        before = globals_of(made_by)
        built, _ = build(made_by, request.urls)
        after = globals_of(made_by)
        check_made(made_by, built)
        built = getattr(built, "dataloader", built)  # of OpenCLIP's DataInfo
        found = [each for _, each in loaders_in(built)]
        part = stateful_part(built)
        self.stateful = None if part is None else part.thing
        torch = sys.modules.get("torch.utils.data")
        facts = LoaderFacts(
            kind=type(built).__name__,
            workers=max((int(each.num_workers) for each in found), default=None),
            can_have_workers=bool(found) or (torch is not None and isinstance(built, torch.Dataset)),
            own_method=any(getattr(each, "multiprocessing_context", None) is not None for each in found),
            stateful=None if part is None else part.path,
            map_style=is_map_style(built) or any(is_map_style(each.dataset) for each in found),
            repeats=any(repeats(built)),
            resampled=repeats(built)[0],
            lines={
                "makes": line_in(None, made_by),
                "reads": line_in(built, made_by, "__iter__", "__getitem__"),
                "saves": line_in(self.stateful, made_by, "state_dict"),
                "loads": line_in(self.stateful, made_by, "load_state_dict"),
            },
            set_globals=tuple(name for name in after if before.get(name) != after[name]),
        )
        tell("facts", facts)
        if request.workers is not None:
            built = with_workers(built, request.workers)
        return Items(built) if is_map_style(built) and not is_nested(built) else built

    def _read(self, loader: object, epoch: int) -> bool:
        """Report the samples of an epoch; return whether it ended by itself in time."""
        count, last = 0, frozenset(self.request.save_at)
        for count, item in enumerate(cast("Iterable[object]", loader), 1):
            self.tell("item", rows_of(item, self.request.keys))
            if (epoch, count) in last:
                self._save(epoch, count)
            if count >= self.request.most or time.monotonic() > self.until:
                return False
        self.tell("whole", None)
        self._save(epoch, END)
        return True

    def _save(self, epoch: int, count: int) -> None:
        place = (epoch, count)
        if place not in self.request.save_at:
            return
        self.tell("stage", "state_dict")
        try:
            state = self.stateful.state_dict()  # type: ignore[attr-defined]
            saved = SavedState(place, pickle.dumps(state))
            if pickle.dumps(state) == saved.data:  # otherwise a later change would show nothing
                self.kept.append((place, state, saved.data))
        except Exception as error:  # noqa: BLE001
            saved = SavedState(place, error=error_text(error), line=line_of(error))
        self.tell("state", saved)
        self.tell("stage", "reading")


def _set_epoch(loader: object) -> Callable[[int], object] | None:
    """Return what a training script calls at the start of an epoch: of the loader, its sampler or its dataset."""
    for thing in (loader, getattr(loader, "sampler", None), getattr(loader, "dataset", None)):
        if callable(found := getattr(thing, "set_epoch", None)):
            return found  # type: ignore[no-any-return]
    return None
