"""The state that the meters of one run share: the stage that runs now, and when the run ends."""

import threading
import time
from typing import Literal, NoReturn

from .errors import error_text
from .pipeline_steps import Chain
from .stage_trace import RunningStage

InputEnd = Literal["", "samples", "time", "asks-ended-source", "pass"]

# How often a stage may ask its ended input, or swallow the
# end of a run, before it counts as endless.
MAX_POLLS = 1000
# Of the time limit, after which the input ends.
_INPUT_SHARE = 0.75


class Stopped(BaseException):
    """Ends a run. Not an Exception: no error handler of a stage can swallow it."""


class TraceRun:
    """The state that all meters of one run share; read by the thread that waits for it.

    Args:
        chain: the steps of the pipeline.
        samples: the input ends after that many.
        seconds: the run ends after that many.
    """

    def __init__(self, chain: Chain, samples: int, seconds: float) -> None:
        self.chain = chain
        self.samples = samples
        self.seconds = seconds
        # All stages and, as the last one, the time between two items, in which no stage runs.
        self.stages = [
            RunningStage(number, step.title, batch=step.batch)
            for number, step in enumerate(chain.steps, 1)
        ]
        self.stages.append(RunningStage(0, ""))
        # The index of the stage whose code runs now, and since when.
        self.running = -1
        self.started = self.running_since = time.monotonic()
        # When the input ends, so that buffers empty themselves.
        self.input_deadline = self.started + _INPUT_SHARE * seconds
        # When the run ends.
        self.deadline = self.started + seconds
        # Of a source that draws shards, those that it has not drawn yet.
        self.unread_shards = set(chain.urls)
        # The index of the first stage that yields samples; so far there is none.
        self.first_with_samples = len(chain.steps)
        # Why the input ended.
        self.end_reason: InputEnd = ""
        self.stopping = False
        self.refusals = 0
        # The exception that left a stage last, and this stage.
        self.raised: tuple[int, BaseException] | None = None
        # The stage that asks its ended input again and again; -1 if none.
        self.endless_at = -1
        # The last stage ended by itself: nothing is left in a buffer.
        self.drained = False
        # The stage, and the seconds without an answer.
        self.blocked: tuple[int, float] | None = None

    def switch_timer(self, owner: int) -> int:
        """Record the time since the last switch, and switch to ``owner``.

        Returns the previous owner.
        """
        now = time.monotonic()
        before = self.running
        self.stages[before].seconds += now - self.running_since
        self.running_since = now
        self.running = owner
        return before

    def on_pass_start(self, index: int) -> None:
        """Note that stage ``index`` begins with a source, once in each pass."""

    def on_item(self, index: int, item: object) -> None:
        """See an item that stage ``index`` has just yielded, after it was counted."""

    def is_shard_name(self, text: str) -> bool:
        """Return whether a text that comes before any sample is a shard."""
        return bool(text)

    def samples_in(self, index: int, batch: object) -> int:
        """Return the number of samples in a batch that stage ``index`` yields; 0 if unknown."""
        return _rows_in(batch)

    def input_end_reason(self, index: int) -> InputEnd:
        """Return why stage ``index`` yields no further item; "" if it continues."""
        if index == self.first_with_samples:
            if self.stages[index].out >= self.samples:
                return "samples"
            if time.monotonic() > self.input_deadline:
                return "time"
        has_read_all_shards = bool(self.chain.urls) and not self.unread_shards
        has_samples = self.first_with_samples < len(self.chain.steps)
        if index == 0 and has_read_all_shards and not has_samples:
            return "pass"
        return ""

    def check_deadline(self) -> None:
        """Raise Stopped when time is up."""
        if self.stopping or time.monotonic() > self.deadline:
            if self.endless_at < 0:
                self.end_reason = "time"
            self.end_run()

    def end_run(self) -> NoReturn:
        """End the run here."""
        self.refusals += 1
        if self.refusals > MAX_POLLS and self.stopping:
            # A stage swallows even this: its daemon thread sleeps forever.
            threading.Event().wait()
        raise Stopped

    def count_swallowed_error(
        self, index: int, error: BaseException, continues: bool = True
    ) -> None:
        """Count an error that a stage swallowed, and keep the first with its position.

        ``continues``: whether the stage takes its next input, as its handler decided.
        """
        stage = self.stages[index]
        name = type(error).__name__
        stage.errors += 1
        stage.error_types[name] = stage.error_types.get(name, 0) + 1
        stage.ended_stream |= not continues
        if stage.errors == 1:
            stage.first_error = error_text(error)
            stage.error_key, stage.error_shard = self.last_input(index)

    def stage_ended_early(self) -> int:
        """Return the first stage that ended before its input, such as ``slice``; -1 if none did."""
        for index in range(1, len(self.stages) - 1):
            if self.stages[index].ended and not self.stages[index - 1].ended:
                return index
        return -1

    def last_input(self, index: int) -> tuple[str, str]:
        """Return key and shard of the last input of stage ``index``."""
        for stage in reversed(self.stages[:index]):
            if stage.key or stage.shard:
                return stage.key, stage.shard
        return "", ""


def _rows_in(batch: object) -> int:
    """Return the number of samples in a batch; 0 if unknown.

    A batch is parallel columns or a list of samples.
    """
    if isinstance(batch, dict):
        batch = list(batch.values())
    if isinstance(batch, list | tuple) and batch and not isinstance(batch[0], dict | tuple):
        batch = batch[0]
    try:
        return len(batch)  # type: ignore[arg-type]
    except TypeError:
        return 0
