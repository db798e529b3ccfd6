"""The process in which the user's loader runs.

It builds the loader for each request, and reports samples and states.
"""

import importlib
import multiprocessing
import os
import pickle
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import IO, cast

from wdsflow.engines.keeper import FORK_DONE_STATUS, continue_in_forks
from wdsflow.engines.messages import receive, send, take_line

from ...tracing.errors import line_of
from ...tracing.machine_faults import machine_fault
from ...tracing.pipeline_stages import is_nested
from ..user_code.iterables import Items, is_map_style
from ..user_code.load_pipeline import PipelineError, build, check_built, failure_text, load_object
from ..user_code.user_module import globals_of, libraries_of
from ..user_code.user_process import limit_memory
from ..values.rows import rows_of
from .loader_facts import facts_of
from .loader_messages import EPOCH_END, LoaderRequest, LoaderRun, Position, SavedState, Step
from .loader_parts import Stateful, loaders_in, stateful_part, with_workers
from .loader_ranks import join_group, set_rank
from .unpicklable_parts import unpicklable_parts


def serve(spec: str, libraries: Sequence[str]) -> None:
    """Import libraries, then run the loader for each request on the line.

    Each request runs in a fork, which reports each step on the line.
    """
    line = take_line()
    limit_memory()
    for name in libraries:
        importlib.import_module(name)
    # What follows runs in a new fork for each request.
    continue_in_forks()
    opened = _opened_paths()
    if "numpy" in sys.modules:
        # A fork has the state of its parent; Python's own generator is seeded again.
        sys.modules["numpy"].random.seed()
    # When the line is closed, this fails, and the process that forks ends too.
    request: LoaderRequest = receive(line)
    process = _LoaderProcess(request, line)
    try:
        process.run_loader(spec, libraries)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's code may raise anything
        _set_failure(process.run, error)
    real_paths = {os.path.realpath(path) for path in tuple(opened)}
    process.run.opened = frozenset(
        url for url in request.urls if os.path.realpath(url) in real_paths
    )
    send(line, process.run)
    # Threads of the user's loader end with the process, and its workers soon.
    os._exit(FORK_DONE_STATUS)


def _opened_paths() -> set[str]:
    """Return a set to which each path is added that this process opens from now on."""
    paths = set[str]()

    def add_path(event: str, values: tuple[object, ...]) -> None:
        if event == "open":
            paths.add(str(values[0]))

    sys.addaudithook(add_path)
    return paths


def _set_failure(run: LoaderRun, error: BaseException) -> None:
    run.status = "raised"
    if isinstance(error, PipelineError):
        run.error = str(error)
    else:
        run.error = failure_text(error, "called")
        run.line = line_of(error)
    fault = machine_fault(error)
    if fault:
        run.error += f"; {fault}: validate where it will train"


class _LoaderProcess:
    """One run, in its process."""

    def __init__(self, request: LoaderRequest, line: IO[bytes]) -> None:
        self.request = request
        self.line = line
        self.run = LoaderRun()
        self.stateful: Stateful | None = None
        # Whether a DataLoader makes batches.
        self.batched = False
        # States that are still as they were saved, with the objects themselves.
        self.state_objects: list[tuple[SavedState, object]] = []

    def run_loader(self, spec: str, libraries: Sequence[str]) -> None:
        """Build the loader, load the state, and read the epochs."""
        request = self.request
        if request.start_method:
            multiprocessing.set_start_method(request.start_method, force=True)
            # Imported once, not by each worker.
            multiprocessing.set_forkserver_preload(["__main__", *libraries])
        set_rank(request)
        environment = dict(os.environ)
        user_object = load_object(spec)
        # Libraries may read what the module sets: then they must not be imported before it.
        if environment == os.environ:
            self.run.libraries = libraries_of(user_object)
        loader = self._build_loader(user_object)
        deadline = time.monotonic() + request.seconds
        for epoch in range(request.first_epoch, request.first_epoch + request.epochs):
            set_epoch = _set_epoch_method(loader)
            if set_epoch is not None:
                # As training does.
                set_epoch(epoch)
            if epoch == request.first_epoch:
                self._load_state()
            ended = self._read_epoch(loader, epoch, deadline)
            self.run.complete.append(ended)
            if not ended:
                break
        for saved, state in self.state_objects:
            if pickle.dumps(state) != saved.data:
                self.run.changed_states.append(saved.position)
        self.run.status = "ended"

    def _build_loader(self, user_object: object) -> object:
        """Return the loader that is to be iterated, and set the facts about it."""
        self._begin_step("building")
        self.run.group_error = join_group(self.request)
        globals_before = globals_of(user_object)
        loader = build(user_object, self.request.urls)
        set_globals = []
        for name, value in globals_of(user_object).items():
            if globals_before.get(name) != value:
                set_globals.append(name)
        check_built(user_object, loader)
        # Of OpenCLIP's DataInfo.
        loader = getattr(loader, "dataloader", loader)
        self.run.facts = facts_of(loader, user_object, set_globals)
        _, self.stateful = stateful_part(loader)
        self.batched = any(
            torch_loader.batch_size is not None for _, torch_loader in loaders_in(loader)
        )
        if self.request.workers is not None:
            loader = with_workers(loader, self.request.workers)
        if is_map_style(loader) and not is_nested(loader):
            return Items(loader)
        return loader

    def _load_state(self) -> None:
        if self.request.state is not None and self.stateful is not None:
            self._begin_step("load_state_dict")
            self.stateful.load_state_dict(pickle.loads(self.request.state))  # noqa: S301 - of our own process

    def _read_epoch(self, loader: object, epoch: int, deadline: float) -> bool:
        """Read an epoch, and report why its workers cannot be started if that is because of pickle.

        Args:
            loader: to be iterated.
            epoch: its number.
            deadline: time.monotonic() after which no further item is read.

        Returns:
            Whether the epoch ended by itself before the deadline.
        """
        try:
            return self._read_items(loader, epoch, deadline)
        except Exception:
            if self.request.start_method not in ("", "fork"):
                self.run.unpicklable = tuple(unpicklable_parts(loader))
            raise

    def _read_items(self, loader: object, epoch: int, deadline: float) -> bool:
        items: list[list[dict[str, str]]] = []
        samples = 0
        self.run.epochs.append(items)
        self._save_state((epoch, 0))
        self._begin_step("reading")
        for item in cast("Iterable[object]", loader):
            rows = rows_of(item, self.request.keys, batched=self.batched)
            items.append(rows)
            samples += len(rows)
            self._save_state((epoch, len(items)))
            self._begin_step("reading")
            if samples >= self.request.most_samples or time.monotonic() > deadline:
                return False
        self._save_state((epoch, EPOCH_END))
        return True

    def _save_state(self, position: Position) -> None:
        """Save the state if the request asks for it at this position."""
        if position not in self.request.save_at or self.stateful is None:
            return
        self._begin_step("state_dict")
        state = self.stateful.state_dict()
        saved = SavedState(position, pickle.dumps(state))
        self.run.states.append(saved)
        # If two pickles of one object differ by themselves, a later difference would show nothing.
        if pickle.dumps(state) == saved.data:
            self.state_objects.append((saved, state))

    def _begin_step(self, step: Step) -> None:
        """Report that the run has come so far, without the samples."""
        self.run.step = step
        send(self.line, replace(self.run, epochs=[], states=[]))


def _set_epoch_method(loader: object) -> Callable[[int], object] | None:
    """Return the ``set_epoch`` that a training script calls at the start of an epoch.

    It is a method of the loader, its sampler or its dataset.
    """
    for owner in (loader, getattr(loader, "sampler", None), getattr(loader, "dataset", None)):
        set_epoch = getattr(owner, "set_epoch", None)
        if callable(set_epoch):
            return set_epoch  # type: ignore[no-any-return]
    return None
