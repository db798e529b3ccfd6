"""Replaces parts of open_clip_train.main: the feed, checkpoints that hold its state, exact resume.

Imports torch.
"""

import builtins
import importlib
import inspect
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from wdsflow.readers.open_clip.versions import Loop, saves_at, why_no_checkpoints
from wdsflow.text.shell import quote_path
from wdsflow.training.feed.resume.state import OtherSamples
from wdsflow.training.feed_options import FeedError, FeedStopped, ResumeError
from wdsflow.training.launch import checkpoints
from wdsflow.training.launch.checkpoints import (
    ENTRY,
    LATEST,
    CheckpointPosition,
    SavedFeed,
    remove_older_checkpoints,
    save_checkpoint,
    saved_feed,
)
from wdsflow.training.ranks import gather_from_ranks

from .replaced_names import replace_name

GetData = Callable[..., dict[str, Any]]
_log = logging.getLogger(__name__)


class HeadspaceDone(FeedStopped):
    """A trial that measures how much training waits for data has ended."""


class PatchedRun:
    """One run of open_clip_train.main with some of its parts replaced.

    ``every``: optimizer steps between checkpoints within epochs; None for none. ``headspace``: the
    run is a trial, see ``Loader.headspace``, which HeadspaceDone ends.
    """

    def __init__(
        self,
        main: ModuleType,
        get_data: GetData,
        every: int | None = None,
        *,
        headspace: bool = False,
    ) -> None:
        self._main, self._get_data, self._every, self._headspace = main, get_data, every, headspace
        self._loop: Callable[..., object] = main.train_one_epoch
        self._evaluation: Callable[..., object] = main.evaluate
        self._resumed: SavedFeed | None = None
        self._states: list[dict[str, Any]] = []
        self._args: Any = None
        self._infos: list[Any] = []
        self._position: CheckpointPosition | None = None
        self.loader: Any = None

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Install our parts, and restore OpenCLIP's at the end."""
        files = importlib.import_module("open_clip_train.file_utils")
        original = files.pt_load

        def load(*words: object, **named: object) -> object:
            checkpoint = original(*words, **named)
            self._resumed = saved_feed(checkpoint)
            return checkpoint

        with ExitStack() as stack:
            stack.enter_context(replace_name(files, "pt_load", load))
            if hasattr(self._main, "pt_load"):
                stack.enter_context(replace_name(self._main, "pt_load", load))
            stack.enter_context(replace_name(self._main, "get_data", self._get_feed_data))
            stack.enter_context(replace_name(self._main, "train_one_epoch", self._train_one_epoch))
            stack.enter_context(replace_name(self._main, "evaluate", self._evaluate))
            stack.enter_context(replace_name(self._main, "torch", _TorchWithAtomicSave(self)))
            yield

    def close(self) -> None:
        """End the threads and processes of the feeds."""
        for info in self._infos:
            if hasattr(info.dataloader, "close"):
                info.dataloader.close()

    def explain(self, error: BaseException) -> BaseException | None:
        """Return the error of another rank that failed, if it is the reason for this one."""
        return self.loader.explain(error) if hasattr(self.loader, "explain") else None

    def with_state(self, checkpoint: dict[str, object]) -> dict[str, object]:
        """Add the state of the feed to OpenCLIP's checkpoint at the end of an epoch."""
        if self._position is None or not self._states:
            return checkpoint
        return {**checkpoint, ENTRY: SavedFeed(self._position, self._states).entry()}

    def _get_feed_data(self, args: Any, *rest: object, **named: object) -> dict[str, Any]:
        self._args = args
        if self._every is not None and (why := why_no_checkpoints(args)):
            raise ResumeError(f"--checkpoint-every is not possible: {why}")
        try:
            data = self._get_data(args, *rest, **named)
        except FeedStopped:
            raise
        except (ValueError, AssertionError, OSError) as error:
            if not _is_from_wdsflow(error):
                raise
            raise FeedError(
                "\n  ".join(filter(None, [str(error), getattr(error, "hint", "")]))
            ) from error
        self._infos = list(data.values())
        if "train" in data:
            self.loader = data["train"].dataloader
            if self._headspace and not hasattr(self.loader, "headspace"):
                raise FeedError("--headspace works only with shards (--dataset-type webdataset)")
            if self._every is not None and not hasattr(self.loader, "state_dict"):
                raise ResumeError(
                    "--checkpoint-every works only with shards (--dataset-type webdataset)"
                )
            if self._resumed is not None:
                self._resume_from(self._resumed)
        return data

    def _resume_from(self, saved: SavedFeed) -> None:
        """Set the feed to the position of a checkpoint."""
        within = saved.position.batch > 0
        try:
            state = saved.states_of_rank(int(self._args.rank), int(self._args.world_size))
            if (state["feed"] is None) == hasattr(self.loader, "load_state_dict"):
                then, now = (
                    ("other data", "shards") if state["feed"] is None else ("shards", "other data")
                )
                raise ResumeError(
                    f"the run that wrote the checkpoint read {then}, and this one reads {now}"
                )
            if state["feed"] is not None:
                self.loader.load_state_dict(state["feed"])
        except ValueError as error:
            # Continuing would silently change the set of samples.
            if isinstance(error, OtherSamples):
                raise ResumeError(
                    f"cannot resume at epoch {saved.position.epoch}: {error}"
                ) from error
            if within:
                epoch_end = Path(str(self._args.resume)).with_name(
                    f"epoch_{saved.position.epoch}.pt"
                )
                fix = "To fix it, continue with the ranks and arguments of that run"
                fix += (
                    f", or from the end of the epoch before: --resume {quote_path(str(epoch_end))}"
                    if epoch_end.is_file()
                    else ""
                )
                raise ResumeError(
                    f"cannot resume within epoch {saved.position.epoch}: {error}\n{fix}"
                ) from error
            _log.warning(
                "The feed differs from that of the checkpoint; resuming at epoch %d: %s",
                saved.position.epoch,
                error,
            )
            self._resumed = None

    def _train_one_epoch(self, *words: object, **named: object) -> object:
        bound = inspect.signature(self._loop).bind(*words, **named)
        loop = Loop(self._main, dict(bound.arguments))
        resumed, self._resumed = self._resumed, None
        first = resumed.position.batch if resumed is not None else 0
        if first:
            _log.info("Resuming in epoch %d after batch %d", loop.epoch, first)

        def restore() -> None:
            if resumed is not None:
                checkpoints.restore_random_states(
                    resumed.ranks[int(self._args.rank)]["random"], loop.args.device
                )

        feed = hasattr(self.loader, "state_dict")
        # Other loaders shuffle by the global generators when they begin an epoch.
        if not feed:
            restore()
        begun = restore if feed else lambda: None
        batches = self.loader.headspace if self._headspace else None
        steps = StepCounter(
            self.loader, first, begun, lambda number: self._after_batch(loop, number), batches
        )
        with count_steps(self._loop, steps):
            result = self._loop(*words, **named)
        if self._headspace:
            raise HeadspaceDone
        self._after_epoch(loop)
        return result

    def _evaluate(self, *words: object, **named: object) -> object:
        """Evaluate, then restore the random generators: a resumed run skips earlier evaluations."""
        before = checkpoints.capture_random_states(self._args.device)
        try:
            return self._evaluation(*words, **named)
        finally:
            checkpoints.restore_random_states(before, self._args.device)

    def _after_batch(self, loop: Loop, batches: int) -> None:
        accumulated, length = int(loop.args.accum_freq), int(self.loader.num_batches)
        if self._every is None or batches % accumulated or batches >= length:
            return
        step = (length // accumulated) * loop.epoch + batches // accumulated
        if step % self._every == 0:
            self._write_checkpoint(
                loop,
                CheckpointPosition(loop.epoch, batches, step),
                gather_from_ranks(self._state()),
            )

    def _after_epoch(self, loop: Loop) -> None:
        """Keep the state of the feed for OpenCLIP's checkpoint of this epoch.

        If OpenCLIP saves none and one is due, save one.
        """
        steps = int(self.loader.num_batches) // int(loop.args.accum_freq)
        self._position = CheckpointPosition(loop.epoch + 1, 0, steps * (loop.epoch + 1))
        self._states = gather_from_ranks(self._state())
        if (
            self._every is not None
            and self._position.step % self._every == 0
            and not saves_at(loop.args, loop.epoch + 1)
        ):
            self._write_checkpoint(loop, self._position, self._states)

    def _write_checkpoint(
        self, loop: Loop, position: CheckpointPosition, states: list[dict[str, Any]]
    ) -> None:
        checkpoint = loop.checkpoint()
        if checkpoint is None:
            return
        path = Path(loop.args.checkpoint_path) / (
            LATEST if loop.args.save_most_recent else position.file_name
        )
        save_checkpoint(
            {**checkpoint, "epoch": position.epoch, ENTRY: SavedFeed(position, states).entry()},
            path,
        )
        remove_older_checkpoints(path)
        _log.info("Saved %s after %d steps, in epoch %d", path, position.step, position.epoch)

    def _state(self) -> dict[str, Any]:
        feed = self.loader.state_dict() if hasattr(self.loader, "state_dict") else None
        return {"feed": feed, "random": checkpoints.capture_random_states(self._args.device)}


class _TorchWithAtomicSave:
    """A torch for open_clip_train.main whose ``save`` is atomic.

    It also adds the state of the feed.
    """

    def __init__(self, run: PatchedRun) -> None:
        self._run = run

    def __getattr__(self, name: str) -> object:
        return getattr(torch, name)

    def save(self, value: object, file: object, *words: object, **named: object) -> None:
        """Save a checkpoint, or anything else as torch does."""
        if (
            words
            or named
            or not isinstance(file, str)
            or not isinstance(value, dict)
            or "epoch" not in value
        ):
            torch.save(value, file, *words, **named)  # type: ignore[arg-type]
            return
        save_checkpoint(self._run.with_state(value), Path(file))
        remove_older_checkpoints(Path(file))


def _is_from_wdsflow(error: BaseException) -> bool:
    """Return whether wdsflow raised an error, so that its message is complete."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    raised_in = "" if trace is None else str(trace.tb_frame.f_globals.get("__name__"))
    return bool(str(error)) and raised_in.startswith("wdsflow.")


class StepCounter:
    """Replaces ``enumerate`` in OpenCLIP's loop: counts the batches of one loader from ``first``.

    The loop computes the step, the learning rate and its log lines from this number, so a resumed
    epoch continues. ``begun`` is called before the first batch is given, ``done`` with the number
    of finished batches each time the loop asks for the next one. ``batches``: returns the batches,
    if they are not those of the loader itself.
    """

    def __init__(
        self,
        loader: Iterable[object],
        first: int,
        begun: Callable[[], None],
        done: Callable[[int], None],
        batches: Callable[[], Iterator[object]] | None = None,
    ) -> None:
        self._loader, self._first, self._begun, self._done = loader, first, begun, done
        self._batches = batches or (lambda: iter(loader))
        self.used = False

    def __call__(self, items: Iterable[object], start: int = 0) -> Iterator[tuple[int, object]]:
        """Enumerate the loader from ``first``, anything else as Python does."""
        return self._count() if items is self._loader else builtins.enumerate(items, start)

    def _count(self) -> Iterator[tuple[int, object]]:
        self.used = True
        batches = self._batches()
        number = self._first
        while True:
            try:
                # Not in a variable: a reference would keep the
                # loader from reusing the memory of the batch.
                yield number, self._take(batches, number)
            except StopIteration:
                return
            number += 1
            self._done(number)

    def _take(self, batches: Iterator[object], number: int) -> object:
        batch = next(batches)
        if number == self._first:
            self._begun()
        return batch


@contextmanager
def count_steps(function: Callable[..., object], steps: StepCounter) -> Iterator[None]:
    """Replace ``enumerate`` in the module of ``function`` by ``steps`` for the block.

    Raises RuntimeError if nothing was enumerated.
    """
    names = function.__globals__
    names["enumerate"] = steps
    try:
        yield
    finally:
        del names["enumerate"]
    if not steps.used:
        raise RuntimeError(
            f"{function.__module__}.{function.__qualname__} does not enumerate its batches any more"
        )
