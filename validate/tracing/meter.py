"""Meters after the stages of a pipeline, and their counts."""

import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, NoReturn

from wdsflow.shards.source.base import shown_url
from wdsflow.text.shell import escape

from .errors import error_text
from .pipeline_stages import Call
from .pipeline_steps import Chain

Kind = Literal["", "shard", "member", "sample", "batch"]
InputEnd = Literal["", "samples", "time", "asks-ended-source", "pass"]

# Items that webdataset passes from shard list to tar reader.
_SHARD_FIELDS = frozenset({"url", "stream", "local_path"})
_MAX_FIELDS = 64
_MAX_POLLS = 1000
# Of the time limit, after which the input ends.
_INPUT_SHARE = 0.75


class Stopped(BaseException):
    """Ends a run. Not an Exception: no error handler of a stage can swallow it."""


@dataclass
class StageTrace:
    """Input and output of one stage."""

    # From 1.
    number: int
    title: str
    # Input items; 0 for the source.
    inputs: int = 0
    # Output items.
    out: int = 0
    # Of its output items: "shard", "member", "sample", "batch".
    kind: Kind = ""
    # Of its input items.
    input_kind: Kind = ""
    # Samples inside its batches.
    rows: int = 0
    # Samples that one of its batches needs, if known; -1 if it takes batches apart.
    batch: int = 0
    # In its own code.
    seconds: float = 0.0
    # Swallowed by its handler.
    errors: int = 0
    # The same, by the name of the exception.
    error_types: dict[str, int] = field(default_factory=dict)
    first_error: str = ""
    error_key: str = ""
    error_shard: str = ""
    # A handler returned False: the stage stopped before its input ended.
    ended_stream: bool = False
    # Logged warnings: they suggest errors swallowed without a handler.
    logged: int = 0
    first_log: str = ""
    # Of its input samples, most frequent first.
    fields: dict[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """``stage 6 select(...)``."""
        return f"stage {self.number} {self.title}"

    @property
    def lost(self) -> int:
        """Samples (or batches) that were consumed and not yielded, 0 if unknown."""
        if self.kind == "batch" and self.input_kind == "sample":
            # The numbers can be compared only if it is known how many samples its batches hold.
            if not self.batch or not self.rows:
                return 0
            return max(0, self.inputs - self.rows)
        if self.input_kind not in ("sample", "batch") or self.kind not in ("", self.input_kind):
            return 0
        return max(0, self.inputs - self.out)


class RunningStage(StageTrace):
    """A stage that runs: its ``fields`` are those of its output, and its input is the output before it."""

    # Its output has ended.
    ended = False
    # Of its last output.
    key = ""
    shard = ""

    def log(self, message: str) -> None:
        """Count a warning."""
        self.logged += 1
        self.first_log = self.first_log or escape(message, 200)


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
        # The stage whose code runs now, and since when.
        self.owner = -1
        self.started = self.since = time.monotonic()
        # When the input ends, so that buffers empty themselves, and when the run ends.
        self.input_deadline = self.started + _INPUT_SHARE * seconds
        self.deadline = self.started + seconds
        # Shards of a source that draws them.
        self.unread = set(chain.urls)
        # The first stage that yields samples.
        self.first = len(chain.steps)
        # Why the input ended.
        self.reason: InputEnd = ""
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

    def switch(self, owner: int) -> int:
        """Record the time since the last switch and switch to ``owner``; return the previous owner."""
        now = time.monotonic()
        before = self.owner
        self.stages[before].seconds += now - self.since
        self.since = now
        self.owner = owner
        return before

    def begins(self, index: int) -> None:
        """Note that stage ``index`` begins with a source, once in each pass."""

    def look(self, index: int, item: object) -> None:
        """See an item that stage ``index`` has just yielded, after it was counted."""

    def names_shard(self, text: str) -> bool:
        """Return whether a text that comes before any sample is a shard."""
        return bool(text)

    def samples_in(self, index: int, batch: object) -> int:
        """Return the number of samples in a batch that stage ``index`` yields; 0 if unknown."""
        return rows_in(batch)

    def input_ends(self, index: int) -> InputEnd:
        """Return why stage ``index`` yields no further item; "" if it continues."""
        if index == self.first:
            if self.stages[index].out >= self.samples:
                return "samples"
            if time.monotonic() > self.input_deadline:
                return "time"
        has_read_all_shards = bool(self.chain.urls) and not self.unread
        has_samples = self.first < len(self.chain.steps)
        if index == 0 and has_read_all_shards and not has_samples:
            return "pass"
        return ""

    def check(self) -> None:
        """Raise Stopped when time is up."""
        if self.stopping or time.monotonic() > self.deadline:
            if self.endless_at < 0:
                self.reason = "time"
            self.refuse()

    def refuse(self) -> NoReturn:
        """End the run here."""
        self.refusals += 1
        if self.refusals > _MAX_POLLS and self.stopping:
            # A stage swallows even this: its daemon thread sleeps forever.
            threading.Event().wait()
        raise Stopped

    def swallowed(self, index: int, error: BaseException, continues: bool = True) -> None:
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

    def stopped_early(self) -> int:
        """Return the first stage that ended although its input had not, such as ``slice``; -1 if none did."""
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


class Meter(Iterator[object]):
    """The output of one stage. It counts each item, and checks the time."""

    def __init__(self, run: TraceRun, index: int) -> None:
        self.run = run
        self.index = index
        self.stage = run.stages[index]
        self.stage.ended = False
        # A later pass begins with a new meter: this one remains ended.
        self.ended = False
        # How often the next stage asked after the end.
        self.polls = 0
        # The output to measure.
        self.source: Iterator[object] = iter(())

    def close(self) -> None:
        """Close the stage's generator, which closes its files."""
        close = getattr(self.source, "close", None)
        if callable(close) and not isinstance(self.source, Meter):
            close()

    def __next__(self) -> object:
        run = self.run
        run.check()
        if self.ended or self._input_ends():
            self._end()
        before = run.switch(self.index)
        try:
            item = next(self.source)
        except StopIteration:
            self.ended = self.stage.ended = True
            run.drained = self.index == len(run.chain.steps) - 1
            raise
        except Exception as error:
            self.ended = True
            # The innermost stage is the one that raised it.
            if run.raised is None or run.raised[1] is not error:
                run.raised = (self.index, error)
            raise
        finally:
            run.switch(before)
        run.check()
        self.count(item)
        run.look(self.index, item)
        return item

    def _input_ends(self) -> bool:
        reason = self.run.input_ends(self.index)
        self.run.reason = self.run.reason or reason
        return bool(reason)

    def _end(self) -> NoReturn:
        self.ended = self.stage.ended = True
        self.polls += 1
        if self.polls > _MAX_POLLS:
            self.run.reason = "asks-ended-source"
            self.run.endless_at = self.index + 1
            self.run.refuse()
        raise StopIteration

    def count(self, item: object) -> None:
        """Count an item that the stage has yielded."""
        run = self.run
        stage = self.stage
        stage.out += 1
        if isinstance(item, dict):
            self._look_at_dict(item)
        elif isinstance(item, str) and self.index < run.first and run.names_shard(item):
            stage.kind = stage.kind or "shard"
            stage.shard = escape(item)
        else:
            stage.kind = "batch" if self._is_batch(item) else "sample"
        if stage.kind == "batch":
            stage.rows += run.samples_in(self.index, item)
        elif stage.kind == "sample":
            run.first = min(run.first, self.index)
        if self.index == 0 and run.unread:
            url = item.get("url") if isinstance(item, dict) else item
            run.unread.discard(str(url))

    def _look_at_dict(self, item: dict[object, object]) -> None:
        """Set what a dict shows: its kind, its key and shard, its fields."""
        stage = self.stage
        key = item.get("__key__")
        url = item.get("__url__", item.get("url"))
        if isinstance(url, str):
            stage.shard = escape(shown_url(url))
        # webdataset's end-of-shard mark is an empty dict.
        if "fname" in item or not item:
            stage.kind = stage.kind or "member"
            return
        names = [str(name) for name in item if not str(name).startswith("__")]
        if not isinstance(key, str) and "url" in item and _SHARD_FIELDS.issuperset(names):
            stage.kind = stage.kind or "shard"
            return
        if isinstance(key, str):
            stage.key = escape(key)
        stage.kind = "batch" if self._is_batch(item) else "sample"
        for name in names:
            if name in stage.fields or len(stage.fields) < _MAX_FIELDS:
                shown = escape(name, 60)
                stage.fields[shown] = stage.fields.get(shown, 0) + 1

    def _is_batch(self, item: object) -> bool:
        """Return whether an item is a batch, by the stage, by its input, or by its form."""
        if self.stage.batch < 0:
            # It takes batches apart.
            return False
        if isinstance(item, dict) and "__key__" in item:
            # A batch has a list of keys.
            return not isinstance(item["__key__"], str)
        if self.stage.batch > 0:
            return True
        if self.index and self.run.stages[self.index - 1].kind == "batch":
            return True
        return isinstance(item, list) and bool(item) and isinstance(item[0], dict | tuple | list)


def metered(run: TraceRun, index: int) -> Call:
    """Return a function that runs stage ``index`` on a source, as often as it is called, with a meter on its output."""
    step = run.chain.steps[index]
    call: Call | None = None

    def begin(*source: Iterable[object]) -> Meter:
        nonlocal call
        run.begins(index)
        meter = Meter(run, index)
        before = run.switch(index)
        try:
            call = call or step.make(partial(run.swallowed, index))
            meter.source = iter(call(*source))
        except Exception as error:
            run.raised = run.raised or (index, error)
            raise
        finally:
            run.switch(before)
        return meter

    return begin


def rows_in(batch: object) -> int:
    """Return the number of samples in a batch: parallel columns, or a list of samples. 0 if unknown."""
    if isinstance(batch, dict):
        batch = list(batch.values())
    if isinstance(batch, list | tuple) and batch and not isinstance(batch[0], dict | tuple):
        batch = batch[0]
    try:
        return len(batch)  # type: ignore[arg-type]
    except TypeError:
        return 0
