"""Stands between open_clip_train.main and its parts: another feed, checkpoints that hold its state, exact resume.

Imports torch: import this module where it is needed.
"""

import importlib
import inspect
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from wdsflow.readers.open_clip.versions import Loop, saves_at, why_no_checkpoints
from wdsflow.training.feed.feed_state import OtherSubset
from wdsflow.training.feed_options import FeedError, FeedStopped, ResumeError
from wdsflow.training.launch import checkpoints
from wdsflow.training.ranks import gathered

from .checkpoints import ENTRY, LATEST, CheckpointPosition, Saved, save, saved_in, tidy
from .loop_steps import Steps, counted

GetData = Callable[..., dict[str, Any]]
_log = logging.getLogger(__name__)


class ResumedRun:
    """One run of open_clip_train.main with our parts in place of some of its own.

    ``every``: optimizer steps between checkpoints inside of epochs; None for none.
    """

    def __init__(self, main: ModuleType, get_data: GetData, every: int | None = None) -> None:
        self._main, self._get_data, self._every = main, get_data, every
        self._loop: Callable[..., Any] = main.train_one_epoch
        self._evaluation: Callable[..., Any] = main.evaluate
        self._resumed: Saved | None = None
        self._states: list[dict[str, Any]] = []
        self._args: Any = None
        self._infos: list[Any] = []
        self._position: CheckpointPosition | None = None
        self.loader: Any = None

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Put our parts in place, and OpenCLIP's back at the end."""
        with ExitStack() as stack:
            files = importlib.import_module("open_clip_train.file_utils")
            original = files.pt_load

            def load(*words: Any, **named: Any) -> Any:
                checkpoint = original(*words, **named)
                self._resumed = saved_in(checkpoint)
                return checkpoint

            _put(stack, files, "pt_load", load)
            if hasattr(self._main, "pt_load"):
                _put(stack, self._main, "pt_load", load)
            _put(stack, self._main, "get_data", self._data)
            _put(stack, self._main, "train_one_epoch", self._train_one_epoch)
            _put(stack, self._main, "evaluate", self._evaluate)
            _put(stack, self._main, "torch", _Saving(self))
            yield

    def close(self) -> None:
        """End the threads and processes of the feeds."""
        for info in self._infos:
            close = getattr(info.dataloader, "close", None)
            if close is not None:
                close()

    def explain(self, error: BaseException) -> BaseException | None:
        """Return what another rank said when it failed, if that is why this one did."""
        explain = getattr(self.loader, "explain", None)
        found: BaseException | None = explain(error) if explain is not None else None
        return found

    def with_state(self, checkpoint: dict[str, Any]) -> dict[str, Any]:
        """Return one of OpenCLIP's checkpoints at the end of an epoch with the state of the feed added."""
        if self._position is None or not self._states:
            return checkpoint
        return {**checkpoint, ENTRY: Saved(self._position, self._states).entry()}

    def _data(self, args: Any, *rest: Any, **named: Any) -> dict[str, Any]:
        self._args = args
        if self._every is not None and (why := why_no_checkpoints(args)):
            raise ResumeError(f"--checkpoint-every is not possible: {why}")
        try:
            data = self._get_data(args, *rest, **named)
        except FeedStopped:
            raise
        except (ValueError, AssertionError, OSError) as error:
            if not _is_ours(error):
                raise
            raise FeedError("\n  ".join(filter(None, [str(error), getattr(error, "hint", "")]))) from error
        self._infos = list(data.values())
        if "train" in data:
            self.loader = data["train"].dataloader
            if self._every is not None and not hasattr(self.loader, "state_dict"):
                raise ResumeError("--checkpoint-every works only with shards (--dataset-type webdataset)")
            if self._resumed is not None:
                self._go_on(self._resumed)
        return data

    def _go_on(self, saved: Saved) -> None:
        """Set the feed to where a checkpoint was written."""
        within = saved.position.batch > 0
        try:
            state = saved.of_rank(int(self._args.rank), int(self._args.world_size))
            if (state["feed"] is None) == hasattr(self.loader, "load_state_dict"):
                then, now = ("other data", "shards") if state["feed"] is None else ("shards", "other data")
                raise ResumeError(f"the run that wrote the checkpoint read {then}, and this one reads {now}")
            if state["feed"] is not None:
                self.loader.load_state_dict(state["feed"])
        except ValueError as error:
            if isinstance(error, OtherSubset):  # silently another set of samples from here on
                raise ResumeError(f"cannot resume at epoch {saved.position.epoch}: {error}") from error
            if within:
                raise ResumeError(f"cannot resume within epoch {saved.position.epoch}: {error}") from error
            _log.warning(
                "The feed differs from that of the checkpoint; resuming at epoch %d: %s", saved.position.epoch, error
            )
            self._resumed = None

    def _train_one_epoch(self, *words: Any, **named: Any) -> Any:
        bound = inspect.signature(self._loop).bind(*words, **named)
        loop = Loop(self._main, dict(bound.arguments))
        resumed, self._resumed = self._resumed, None
        first = resumed.position.batch if resumed is not None else 0
        if first:
            _log.info("Resuming in epoch %d after batch %d", loop.epoch, first)

        def restore() -> None:
            if resumed is not None:
                checkpoints.restore(resumed.ranks[int(self._args.rank)]["random"], loop.args.device)

        feed = hasattr(self.loader, "state_dict")
        if not feed:  # other loaders shuffle by the global generators when they begin an epoch; ours must not matter
            restore()
        steps = Steps(self.loader, first, restore if feed else lambda: None, lambda batches: self._done(loop, batches))
        with counted(self._loop, steps):
            result = self._loop(*words, **named)
        self._end(loop)
        return result

    def _evaluate(self, *words: Any, **named: Any) -> Any:
        """Evaluate without a trace in the random generators: a resumed run has not seen the evaluations before."""
        before = checkpoints.capture(self._args.device)
        try:
            return self._evaluation(*words, **named)
        finally:
            checkpoints.restore(before, self._args.device)

    def _done(self, loop: Loop, batches: int) -> None:
        accumulated, length = int(loop.args.accum_freq), int(self.loader.num_batches)
        if self._every is None or batches % accumulated or batches >= length:
            return
        step = (length // accumulated) * loop.epoch + batches // accumulated
        if step % self._every == 0:
            self._write(loop, CheckpointPosition(loop.epoch, batches, step), gathered(self._state()))

    def _end(self, loop: Loop) -> None:
        """Keep what OpenCLIP's checkpoint of this epoch is to hold of the feed, or save one where it saves none."""
        steps = int(self.loader.num_batches) // int(loop.args.accum_freq)
        self._position = CheckpointPosition(loop.epoch + 1, 0, steps * (loop.epoch + 1))
        self._states = gathered(self._state())
        if (
            self._every is not None
            and self._position.step % self._every == 0
            and not saves_at(loop.args, loop.epoch + 1)
        ):
            self._write(loop, self._position, self._states)

    def _write(self, loop: Loop, position: CheckpointPosition, states: list[dict[str, Any]]) -> None:
        checkpoint = loop.checkpoint()
        if checkpoint is None:
            return
        path = Path(loop.args.checkpoint_path) / (LATEST if loop.args.save_most_recent else position.file_name)
        save({**checkpoint, "epoch": position.epoch, ENTRY: Saved(position, states).entry()}, path)
        tidy(path)
        _log.info("Saved %s after %d steps, in epoch %d", path, position.step, position.epoch)

    def _state(self) -> dict[str, Any]:
        feed = self.loader.state_dict() if hasattr(self.loader, "state_dict") else None
        return {"feed": feed, "random": checkpoints.capture(self._args.device)}


class _Saving:
    """torch, as open_clip_train.main sees it: its ``save`` writes in one step, and adds the state of the feed."""

    def __init__(self, run: ResumedRun) -> None:
        self._run = run

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    def save(self, value: Any, file: Any, *words: Any, **named: Any) -> None:
        """Save a checkpoint, or anything else as torch does."""
        if words or named or not isinstance(file, str) or not isinstance(value, dict) or "epoch" not in value:
            torch.save(value, file, *words, **named)
            return
        save(self._run.with_state(value), Path(file))
        tidy(Path(file))


def _is_ours(error: BaseException) -> bool:
    """Return whether wdsflow raised it, so that its message says all."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    raised_in = "" if trace is None else str(trace.tb_frame.f_globals.get("__name__"))
    return bool(str(error)) and raised_in.startswith("wdsflow.")


def _put(stack: ExitStack, module: ModuleType, name: str, value: Any) -> None:
    stack.callback(setattr, module, name, getattr(module, name))
    setattr(module, name, value)
