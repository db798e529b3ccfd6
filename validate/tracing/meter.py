"""Count and time what passes from each stage to the next, and end the run in time."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from .words import error_text, printable

Kind = Literal["", "shard", "member", "sample", "batch"]
Reason = Literal["", "samples", "epoch", "time", "asks-ended-source", "pass"]

_MAX_FIELDS = 64
_MAX_POLLS = 1000


class Stopped(BaseException):
    """Ends a run. No Exception, so that no error handler of a stage can swallow it."""


class Seen:
    """What one stage did: counts, seconds, errors, and the fields of what it gave."""

    def __init__(self) -> None:
        self.out = 0
        self.kind: Kind = ""
        self.rows = 0  # samples inside the batches that it gave
        self.seconds = 0.0
        self.fields: Counter[str] = Counter()
        self.errors = 0
        self.first_error = ""
        self.error_key = ""
        self.error_shard = ""
        self.ended_stream = False  # a handler returned False: the stage stopped before its input ended
        self.logged = 0
        self.first_log = ""
        self.key = ""  # of the item given last
        self.shard = ""


class Run:
    """The state that all meters of one run share; read by the thread that waits for it."""

    def __init__(self, count: int, samples: int, seconds: float, urls: frozenset[str]) -> None:
        self.seen = [Seen() for _ in range(count + 1)]  # the last is for the time between two items
        self.samples = samples
        self.started = self.since = time.monotonic()
        self.soft = self.started + 0.75 * seconds  # then the input ends, so that buffers empty themselves
        self.deadline = self.started + seconds
        self.urls = urls
        self.unread = set(urls)
        self.owner = -1  # the stage whose code runs now
        self.first = count  # the first stage that gives samples
        self.reason: Reason = ""
        self.stopping = False
        self.raised: tuple[int, Exception] | None = None
        self.endless_at = -1

    def switch(self, owner: int) -> int:
        """Book the time since the last switch and hand over to ``owner``; returns the previous owner."""
        now = time.monotonic()
        before = self.owner
        self.seen[before].seconds += now - self.since
        self.since, self.owner = now, owner
        return before

    def check(self) -> None:
        """Raise Stopped when time is up."""
        if self.stopping or time.monotonic() > self.deadline:
            self.reason = "time"
            raise Stopped

    def swallowed(self, index: int, error: BaseException, goes_on: bool = True) -> None:
        """Count an error that a stage swallowed, and keep the first with its place."""
        seen = self.seen[index]
        seen.errors += 1
        seen.ended_stream |= not goes_on
        if seen.errors == 1:
            seen.first_error = error_text(error)
            seen.error_key, seen.error_shard = self.place(index)

    def place(self, index: int) -> tuple[str, str]:
        """Return key and shard of what stage ``index`` was given last."""
        for seen in reversed(self.seen[:index]):
            if seen.key or seen.shard:
                return seen.key, seen.shard
        return "", ""


class Meter(Iterator[Any]):
    """The output of one stage. Each item that is handed over is counted, and the clock looked at."""

    def __init__(self, run: Run, index: int, batch: int, limit: int) -> None:
        self.run, self.index, self.limit = run, index, limit
        self.seen = run.seen[index]
        self.batch = batch
        self.ended = False
        self.polls = 0
        self.source: Iterator[Any] = iter(())

    def attach(self, items: Iterable[Any]) -> "Meter":
        """Set what is measured."""
        self.source = iter(items)
        return self

    def close(self) -> None:
        """Close the stage's generator, so that it gives back its files."""
        close = getattr(self.source, "close", None)
        if callable(close) and not isinstance(self.source, Meter):
            close()

    def __next__(self) -> Any:
        run = self.run
        run.check()
        if self.ended or self._enough():
            self._end()
        before = run.switch(self.index)
        try:
            item = next(self.source)
        except StopIteration:
            self.ended = True
            raise
        except Exception as error:
            self.ended = True
            if run.raised is None or run.raised[1] is not error:
                run.raised = (self.index, error)
            raise
        finally:
            run.switch(before)
        run.check()
        self._look(item)
        return item

    def _enough(self) -> bool:
        run = self.run
        if self.limit and self.seen.out >= self.limit:
            run.reason = run.reason or "epoch"
        elif self.index == run.first and self.seen.out >= run.samples:
            run.reason = run.reason or "samples"
        elif self.index == run.first and time.monotonic() > run.soft:
            run.reason = run.reason or "time"
        elif self.index == 0 and run.urls and not run.unread and run.first >= len(run.seen) - 1:
            run.reason = run.reason or "pass"  # every shard was read, and none held a sample
        else:
            return False
        return True

    def _end(self) -> None:
        self.ended = True
        self.polls += 1
        if self.polls > _MAX_POLLS:
            self.run.reason, self.run.endless_at = "asks-ended-source", self.index + 1
            raise Stopped
        raise StopIteration

    def _look(self, item: Any) -> None:
        run, seen = self.run, self.seen
        seen.out += 1
        if isinstance(item, dict):
            self._look_at_dict(item)
        elif isinstance(item, str) and self.index < run.first:
            seen.kind = seen.kind or "shard"
            seen.shard = printable(item)
        elif self.batch or self._upstream_kind() == "batch":
            seen.kind = "batch"
        else:
            seen.kind = seen.kind or "sample"
        if seen.kind == "batch":
            seen.rows += _rows(item)
        elif seen.kind == "sample":
            run.first = min(run.first, self.index)
        if self.index == 0 and run.unread:
            run.unread.discard(item if isinstance(item, str) else str(item.get("url")) if isinstance(item, dict) else "")

    def _look_at_dict(self, item: dict[Any, Any]) -> None:
        seen = self.seen
        key, url = item.get("__key__"), item.get("__url__", item.get("url"))
        if isinstance(url, str):
            seen.shard = printable(url)
        if isinstance(key, str):
            seen.kind, seen.key = "sample", printable(key)
        elif "fname" in item or not item:  # webdataset's end-of-shard mark is an empty dict
            seen.kind = seen.kind or "member"
            return
        elif "url" in item and self.index < self.run.first:
            seen.kind = seen.kind or "shard"
            return
        elif self.batch or isinstance(key, list) or self._upstream_kind() == "batch":
            seen.kind = "batch"
        else:
            seen.kind = seen.kind or "sample"
        for name in item:
            if not str(name).startswith("__") and (name in seen.fields or len(seen.fields) < _MAX_FIELDS):
                seen.fields[printable(name, 60)] += 1

    def _upstream_kind(self) -> Kind:
        return self.run.seen[self.index - 1].kind if self.index else ""


def _rows(batch: Any) -> int:
    """How many samples a batch holds, 0 where one cannot tell."""
    first = next(iter(batch.values()), None) if isinstance(batch, dict) else batch
    if isinstance(first, list | tuple) and first and not isinstance(batch, dict):
        inner = first[0]
        if hasattr(inner, "shape") or isinstance(inner, list | str) and isinstance(first, tuple | list):
            first = inner if not isinstance(inner, str) else first
    try:
        return len(first) if first is not None else 0
    except TypeError:
        return 0
