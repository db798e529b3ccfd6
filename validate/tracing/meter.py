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
from .pipeline_steps import Call, Chain

Kind = Literal["", "shard", "member", "sample", "batch"]
InputEnd = Literal["", "samples", "time", "asks-ended-source", "pass"]

# Items that webdataset passes from shard list to tar reader.
_SHARD_FIELDS = frozenset({"url", "stream", "local_path"})
_MAX_FIELDS = 64
_MAX_POLLS = 1000


class Stopped(BaseException):
    """Ends a run. Not an Exception: no error handler of a stage can swallow it."""


@dataclass
class StageTrace:
    """Input and output of one stage."""

    # From 1.
    number: int
    title: str
    # Input items; 0 for the source.
    taken: int = 0
    # Output items.
    out: int = 0
    # Of its output items: "shard", "member", "sample", "batch".
    kind: Kind = ""
    taken_kind: Kind = ""
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
        if self.kind == "batch" and self.taken_kind == "sample":
            return max(0, self.taken - self.rows) if self.batch and self.rows else 0
        comparable = self.taken_kind in ("sample", "batch") and self.kind in ("", self.taken_kind)
        return max(0, self.taken - self.out) if comparable else 0


class SeenStage(StageTrace):
    """A running stage: its ``fields`` are those of its output, and its input is the output before it."""

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
    """The state that all meters of one run share; read by the thread that waits for it."""

    def __init__(self, chain: Chain, samples: int, seconds: float) -> None:
        self.chain, self.samples, self.seconds = chain, samples, seconds
        steps = enumerate(chain.steps, 1)
        self.seen = [SeenStage(number, step.title, batch=step.batch) for number, step in steps]
        # For the time between two items.
        self.seen.append(SeenStage(0, ""))
        self.started = self.since = time.monotonic()
        # Then the input ends, and buffers empty themselves.
        self.soft = self.started + 0.75 * seconds
        self.deadline = self.started + seconds
        self.unread = set(chain.urls)
        # The stage whose code runs now.
        self.owner = -1
        # The first stage that yields samples.
        self.first = len(chain.steps)
        self.reason: InputEnd = ""
        self.stopping = False
        self.refused = 0
        self.raised: tuple[int, BaseException] | None = None
        self.endless_at = -1
        # The last stage ended by itself: nothing is left in a buffer.
        self.drained = False
        # The stage, and the seconds without an answer.
        self.blocked: tuple[int, float] | None = None

    def switch(self, owner: int) -> int:
        """Record the time since the last switch and switch to ``owner``; return the previous owner."""
        now = time.monotonic()
        before = self.owner
        self.seen[before].seconds += now - self.since
        self.since, self.owner = now, owner
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
        """Return why stage ``index`` yields no further item; "" if it goes on."""
        seen = self.seen[index]
        if index == self.first and seen.out >= self.samples:
            return "samples"
        if index == self.first and time.monotonic() > self.soft:
            return "time"
        if index == 0 and self.chain.urls and not self.unread and self.first >= len(self.seen) - 1:
            # Every shard was read, and none had a sample.
            return "pass"
        return ""

    def check(self) -> None:
        """Raise Stopped when time is up."""
        if self.stopping or time.monotonic() > self.deadline:
            self.reason = self.reason if self.endless_at >= 0 else "time"
            self.refuse()

    def refuse(self) -> NoReturn:
        """End the run here."""
        self.refused += 1
        if self.refused > _MAX_POLLS and self.stopping:
            # A stage swallows even this: its daemon thread sleeps forever.
            threading.Event().wait()
        raise Stopped

    def swallowed(self, index: int, error: BaseException, goes_on: bool = True) -> None:
        """Count an error that a stage swallowed, and keep the first with its position."""
        seen, name = self.seen[index], type(error).__name__
        seen.errors += 1
        seen.error_types[name] = seen.error_types.get(name, 0) + 1
        seen.ended_stream |= not goes_on
        if seen.errors == 1:
            seen.first_error = error_text(error)
            seen.error_key, seen.error_shard = self.place(index)

    def stopped_early(self) -> int:
        """Return the first stage that ended although its input had not, such as ``slice``; -1 if none did."""
        ends = (index for index in range(1, len(self.seen) - 1) if self.seen[index].ended)
        return next((index for index in ends if not self.seen[index - 1].ended), -1)

    def place(self, index: int) -> tuple[str, str]:
        """Return key and shard of the last input of stage ``index``."""
        for seen in reversed(self.seen[:index]):
            if seen.key or seen.shard:
                return seen.key, seen.shard
        return "", ""


class Meter(Iterator[object]):
    """The output of one stage. It counts each item, and checks the time."""

    def __init__(self, run: TraceRun, index: int) -> None:
        self.run, self.index = run, index
        self.seen = run.seen[index]
        self.ended = self.seen.ended = False
        self.polls = 0
        # The stage to measure.
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
            self.ended = self.seen.ended = True
            run.drained = self.index == len(run.seen) - 2
            raise
        except Exception as error:
            self.ended = True
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
        why = self.run.input_ends(self.index)
        if why:
            self.run.reason = self.run.reason or why
        return bool(why)

    def _end(self) -> NoReturn:
        self.ended = self.seen.ended = True
        self.polls += 1
        if self.polls > _MAX_POLLS:
            self.run.reason, self.run.endless_at = "asks-ended-source", self.index + 1
            self.run.refuse()
        raise StopIteration

    def count(self, item: object) -> None:
        """Count an item that the stage has yielded."""
        run, seen = self.run, self.seen
        seen.out += 1
        if isinstance(item, dict):
            self._look_at_dict(item)
        elif isinstance(item, str) and self.index < run.first and run.names_shard(item):
            seen.kind = seen.kind or "shard"
            seen.shard = escape(item)
        else:
            seen.kind = "batch" if self._is_batch(item) else "sample"
        if seen.kind == "batch":
            seen.rows += run.samples_in(self.index, item)
        elif seen.kind == "sample":
            run.first = min(run.first, self.index)
        if self.index == 0 and run.unread:
            run.unread.discard(str(item.get("url") if isinstance(item, dict) else item))

    def _look_at_dict(self, item: dict[object, object]) -> None:
        seen = self.seen
        key, url = item.get("__key__"), item.get("__url__", item.get("url"))
        if isinstance(url, str):
            seen.shard = escape(shown_url(url))
        # webdataset's end-of-shard mark is an empty dict.
        if "fname" in item or not item:
            seen.kind = seen.kind or "member"
            return
        names = [str(name) for name in item if not str(name).startswith("__")]
        if not isinstance(key, str) and "url" in item and _SHARD_FIELDS.issuperset(names):
            seen.kind = seen.kind or "shard"
            return
        if isinstance(key, str):
            seen.key = escape(key)
        seen.kind = "batch" if self._is_batch(item) else "sample"
        for name in names:
            if name in seen.fields or len(seen.fields) < _MAX_FIELDS:
                shown = escape(name, 60)
                seen.fields[shown] = seen.fields.get(shown, 0) + 1

    def _is_batch(self, item: object) -> bool:
        batch = self.seen.batch
        if batch < 0 or (isinstance(item, dict) and isinstance(item.get("__key__"), str)):
            return False
        upstream = self.run.seen[self.index - 1].kind if self.index else ""
        nested = isinstance(item, list) and bool(item) and isinstance(item[0], dict | tuple | list)
        return batch > 0 or upstream == "batch" or nested or (isinstance(item, dict) and "__key__" in item)


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
