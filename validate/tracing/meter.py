"""A meter after a stage: it counts each item that the stage yields, and the time that it takes."""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import NoReturn

from wdsflow.shards.source.base import shown_url
from wdsflow.text.shell import escape

from .pipeline_stages import Call
from .trace_run import MAX_POLLS, TraceRun

# Items that webdataset passes from shard list to tar reader.
_SHARD_FIELDS = frozenset({"url", "stream", "local_path"})
_MAX_FIELDS = 64


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
        run.check_deadline()
        if self.ended or self._input_ends():
            self._end()
        before = run.switch_timer(self.index)
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
            run.switch_timer(before)
        run.check_deadline()
        self.count(item)
        run.on_item(self.index, item)
        return item

    def _input_ends(self) -> bool:
        reason = self.run.input_end_reason(self.index)
        self.run.end_reason = self.run.end_reason or reason
        return bool(reason)

    def _end(self) -> NoReturn:
        self.ended = self.stage.ended = True
        self.polls += 1
        if self.polls > MAX_POLLS:
            self.run.end_reason = "asks-ended-source"
            self.run.endless_at = self.index + 1
            self.run.end_run()
        raise StopIteration

    def count(self, item: object) -> None:
        """Count an item that the stage has yielded."""
        run = self.run
        stage = self.stage
        stage.out += 1
        if isinstance(item, dict):
            self._inspect_dict(item)
        elif (
            isinstance(item, str)
            and self.index < run.first_with_samples
            and run.is_shard_name(item)
        ):
            stage.kind = stage.kind or "shard"
            stage.shard = escape(item)
        else:
            stage.kind = "batch" if self._is_batch(item) else "sample"
        if stage.kind == "batch":
            stage.rows += run.samples_in(self.index, item)
        elif stage.kind == "sample":
            run.first_with_samples = min(run.first_with_samples, self.index)
        if self.index == 0 and run.unread_shards:
            url = item.get("url") if isinstance(item, dict) else item
            run.unread_shards.discard(str(url))

    def _inspect_dict(self, item: dict[object, object]) -> None:
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
    """Return a function that runs stage ``index`` with a meter on its output.

    It can be called several times, each time with a source.
    """
    step = run.chain.steps[index]
    call: Call | None = None

    def begin(*source: Iterable[object]) -> Meter:
        nonlocal call
        run.on_pass_start(index)
        meter = Meter(run, index)
        before = run.switch_timer(index)
        try:
            call = call or step.make(partial(run.count_swallowed_error, index))
            meter.source = iter(call(*source))
        except Exception as error:
            run.raised = run.raised or (index, error)
            raise
        finally:
            run.switch_timer(before)
        return meter

    return begin
