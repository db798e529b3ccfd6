"""The trace of plain stages: it counts, it names the culprit, and it always ends."""

import functools
import importlib
import itertools
import logging
import os
import random
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.clock import Clock
from wdsflow import trace
from wdsflow.validate.tracing import trace_run
from wdsflow.validate.tracing.pipeline_steps import take_apart
from wdsflow.validate.tracing.stage_trace import StageTrace
from wdsflow.validate.tracing.trace_run import TraceRun
from wdsflow.validate.tracing.trace_table import table
from wdsflow.validate.tracing.trace_verdict import verdict_of

TRACE = importlib.import_module("wdsflow.validate.tracing.trace")
LONG = 1e6  # seconds: nothing of what is tested waits for so long
Samples = Iterator[dict[str, Any]]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time that a run has."""
    return Clock(monkeypatch, TRACE, trace_run)


@pytest.fixture
def up(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """When it is set, whoever waits for the run to end waits no longer."""
    event = threading.Event()

    class Thread(threading.Thread):
        def join(self, timeout: float | None = None) -> None:
            while self.is_alive() and not event.wait(0.01):
                pass

    monkeypatch.setattr(TRACE, "threading", SimpleNamespace(Thread=Thread))
    return event


def samples(count: int, **fields: object) -> list[dict[str, Any]]:
    return [{"__key__": f"k{i}", "__url__": "a.tar", "jpg": b"", **fields} for i in range(count)]


def keep_with_caption(source: Samples) -> Samples:
    return (sample for sample in source if "txt" in sample)


def keep_all(source: Samples) -> Samples:
    yield from source


def careful(
    source: Samples, work: Callable[[Any], Any], handler: Callable[[Exception], bool]
) -> Samples:
    for sample in source:
        try:
            yield work(sample)
        except Exception as error:
            if not handler(error):
                break


class Careful:
    """A stage object with a handler of its own."""

    def __init__(self, handler: Callable[[Exception], bool]) -> None:
        self.handler = handler
        self.runs = 0

    def run(self, source: Samples) -> Samples:
        self.runs += 1
        return careful(source, lambda sample: sample["txt"], self.handler)


def test_the_stage_that_drops_everything_is_named_with_the_fields_it_saw():
    result = trace([samples(30, json=b"{}"), keep_with_caption])
    assert (
        result.verdict == "stage 2 keep_with_caption drops 30 of 30 samples; fields seen: jpg, json"
    )
    assert not result.ok
    assert [(stage.inputs, stage.out) for stage in result.stages] == [(0, 30), (30, 0)]


def test_a_partial_loss_tells_how_many_samples_have_each_field():
    result = trace([samples(6) + samples(4, txt=b"a"), keep_with_caption])
    assert (
        result.verdict
        == "stage 2 keep_with_caption drops 6 of 10 samples; fields seen: jpg, txt (4)"
    )
    assert result.ok


def test_one_lost_sample_is_a_loss():
    assert trace([samples(1) + samples(9, txt=b"a"), keep_with_caption]).verdict == (
        "stage 2 keep_with_caption drops 1 of 10 samples; fields seen: jpg, txt (9)"
    )


def test_a_stage_that_fails_when_it_is_closed_does_not_change_the_verdict():
    def source() -> Samples:
        try:
            yield from samples(100)
        finally:
            raise ValueError("closed too early")

    result = trace([source, keep_all], samples=10)
    assert (result.ending, result.delivered) == ("samples", 10)
    assert result.verdict.startswith("nothing is lost so far: 10 samples")


def test_a_sound_pipeline_is_called_sound():
    result = trace([samples(10, txt=b"a"), keep_with_caption])
    assert result.verdict.startswith("nothing is lost: 10 samples, 2 stages")
    assert result.ending == "pass"
    assert result.samples == result.delivered == 10


def test_the_input_ends_after_enough_samples_and_buffers_empty_themselves():
    def buffer(source: Samples) -> Samples:
        yield from list(source)

    result = trace([({"__key__": str(i)} for i in itertools.count()), buffer], samples=50)
    assert (result.delivered, result.ending) == (50, "samples")
    assert result.verdict.startswith("nothing is lost so far: 50 samples")


@pytest.mark.parametrize("kind", ["curried", "partial", "function", "object"])
def test_errors_that_a_handler_swallows_are_counted_with_key_and_shard(kind: str):
    def work(sample: dict[str, Any]) -> Any:
        return sample["txt"]

    def function(source: Samples, handler: Callable[[Exception], bool] = lambda _: True) -> Samples:
        return careful(source, work, handler)

    class Curried:  # what webdataset makes of a filter
        def __init__(self, f: Callable[..., Any], *args: Any, **kw: Any) -> None:
            self.f, self.args, self.kw = f, args, kw

        def __call__(self, source: Samples) -> Samples:
            result: Samples = self.f(source, *self.args, **self.kw)
            return result

    stage: Any = {
        "curried": Curried(careful, work, lambda _: True),
        "partial": functools.partial(careful, work=work, handler=lambda _: True),
        "function": function,
        "object": Careful(lambda _: True),
    }[kind]
    result = trace([samples(2, txt=b"a") + samples(3), stage])
    seen = result.stages[1]
    assert (seen.errors, seen.first_error) == (3, "KeyError: 'txt'")
    assert (seen.error_key, seen.error_shard) == ("k0", "a.tar")
    assert "3 errors swallowed, the first: KeyError: 'txt' (key k0, shard a.tar)" in result.verdict


def test_a_handler_that_ends_the_stream_is_told():
    result = trace([samples(5), Careful(lambda _: False)])
    assert "its handler ended the stream there" in result.verdict
    assert result.stages[1].inputs == 1


def test_what_a_stage_logs_is_a_hint_where_no_handler_is_found():
    def silent(source: Samples) -> Samples:
        for _ in source:
            logging.getLogger("somebody").warning("cannot read %s", "this")
        yield from ()

    before = list(logging.getLogger().handlers)
    result = trace([samples(3), silent])
    assert (result.stages[1].logged, result.stages[1].first_log) == (3, "cannot read this")
    assert "stage 2 logged 3 warnings, the first: cannot read this" in str(result)
    assert logging.getLogger().handlers == before


def test_an_error_that_escapes_is_the_verdict_and_not_an_exception():
    def upper(source: Samples) -> Samples:
        return (sample["txt"].upper() for sample in source)

    result = trace([samples(3), keep_all, upper, keep_all])
    assert result.ending == "raised"
    assert (
        result.verdict
        == "stage 3 upper raises KeyError: 'txt' (key k0, shard a.tar): the run would end there"
    )


def test_an_error_while_the_chain_is_built_is_the_verdict():
    def eager(source: Samples) -> list[Any]:
        return [sample["txt"] for sample in source]

    assert "stage 2 eager raises KeyError: 'txt'" in trace([samples(1), eager]).verdict
    assert "stage 2 int is not a valid stage" not in trace([samples(1), 7]).verdict
    assert (
        "stage 2 int raises TypeError: int is not a valid stage" in trace([samples(1), 7]).verdict
    )


def test_a_blocked_read_is_named(up: threading.Event):
    reader, writer = os.pipe()

    def wait(source: Samples) -> Samples:
        for sample in source:
            up.set()
            os.read(reader, 1)
            yield sample

    try:
        result = trace([samples(3), wait, keep_all], seconds=LONG)
    finally:
        os.write(writer, b"...")  # lets the thread go that was left behind
    assert result.ending == "blocked"
    assert result.verdict.startswith("stage 2 wait is blocked: no answer for ")
    assert "key k0" in result.verdict


def test_a_stage_that_computes_for_ever_is_stopped(up: threading.Event):
    def spin(source: Samples) -> Samples:
        for sample in source:
            up.set()
            while True:
                pass
            yield sample

    others = set(threading.enumerate())  # a test of a deaf stage leaves its thread behind
    result = trace([samples(3), spin], seconds=LONG)
    assert result.verdict.startswith("stage 2 spin is blocked")
    for thread in set(threading.enumerate()) - others:
        if thread.name == "wdsflow-trace":
            threading.Thread.join(thread)  # hangs if it is not stopped


@pytest.mark.parametrize("caught", [Exception, BaseException])
def test_a_handler_of_everything_cannot_keep_the_run_alive(
    clock: Clock, up: threading.Event, caught: type[BaseException]
):
    def endless() -> Samples:
        for number in itertools.count():
            clock.sleep(1)
            yield {"__key__": str(number)}

    def deaf(source: Samples) -> Samples:
        for asked in itertools.count():
            # Once: an interrupt in the middle of `set` would leave its lock taken.
            if asked == 10_000:
                up.set()
            try:
                next(source)
            except caught:
                continue
            yield from ()

    result = trace([endless, deaf], samples=10**9, seconds=100)
    assert result.verdict == "stage 2 deaf asks its ended input again and again: it would never end"
    assert not result.ok


def test_a_stage_that_asks_an_ended_source_for_ever_is_found_at_once():
    def cycle(source: Samples) -> Samples:
        while True:
            yield from source

    result = trace([samples(5), cycle, keep_with_caption], seconds=LONG)
    assert (
        result.verdict == "stage 2 cycle asks its ended input again and again: it would never end"
    )


def test_slow_sources_still_show_what_happens_behind_a_buffer(clock: Clock):
    def slow() -> Samples:
        for sample in samples(10_000):
            clock.sleep(1)
            yield sample

    def buffer(source: Samples) -> Samples:
        yield from list(source)

    result = trace([slow, buffer, keep_with_caption], seconds=100)
    assert result.ending == "time"
    assert result.verdict.startswith("stage 3 keep_with_caption drops")


def test_stages_and_global_random_generators_are_as_before():
    class Noisy:
        def __init__(self) -> None:
            self.rng, self.epoch = random.Random(1), -1

        def run(self, source: Samples) -> Samples:
            self.epoch += 1
            for sample in source:
                self.rng.random()
                random.random()
                yield sample

    stages: list[Any] = [samples(3), Noisy(), Careful(lambda _: True)]
    kept, state, inner = list(stages), random.getstate(), stages[1].rng.getstate()
    handler = stages[2].handler
    trace(stages)
    assert stages == kept
    assert (stages[1].epoch, stages[2].runs, stages[2].handler) == (-1, 0, handler)
    assert stages[1].rng.getstate() == inner
    assert random.getstate() == state


def test_control_characters_of_data_do_not_reach_the_report():
    bad = [{"__key__": "a\x1b[31m\n", "__url__": "b\x07.tar", "j\x1bpg": 1}]
    text = str(trace([bad, keep_with_caption])) + str(
        trace([bad, lambda source: (s["\x1b"] for s in source)])
    )
    assert text.replace("\n", "").isprintable()


NO_PIPELINE = "not a pipeline: {}; give a DataPipeline, a loader or a list of stages"


@pytest.mark.parametrize(
    ("thing", "said"),
    [
        (7, NO_PIPELINE.format("int")),
        ("a.tar", NO_PIPELINE.format("str")),
        ({"a": 1}, NO_PIPELINE.format("dict")),
        ([], "the pipeline has no stages"),
    ],
)
def test_what_is_no_pipeline_is_refused(thing: object, said: str):
    with pytest.raises(TypeError) as caught:
        trace(thing)
    assert str(caught.value) == said


def test_limits_must_be_positive():
    for limits in ({"samples": 0}, {"seconds": 0}):
        with pytest.raises(ValueError, match="samples and seconds must be positive"):
            trace([[1]], **limits)


def gives_nothing(source: Samples) -> Samples:
    for _ in source:
        yield from ()


def gives_members(source: Samples) -> Samples:
    for _ in source:
        yield {"fname": "a.txt", "data": b""}


@pytest.mark.parametrize(
    ("stages", "said"),
    [
        ([[], keep_all], "stage 1 list gives nothing"),
        ([["a.tar", "b.tar"], gives_nothing], "stage 2 gives_nothing makes no sample of 2 shards"),
        (
            [["a.tar"], gives_members, gives_nothing],
            "stage 3 gives_nothing makes no sample of 1 member",
        ),
        (
            [samples(3, **{f"f{number}": 1 for number in range(9)}), keep_with_caption],
            "stage 2 keep_with_caption drops 3 of 3 samples; fields seen: jpg, f0, f1, f2, f3, f4, f5, f6 and 2 more",
        ),
    ],
)
def test_the_stage_that_gives_nothing_is_named(stages: list[Any], said: str):
    result = trace(stages)
    assert (result.verdict, result.ok) == (said, False)


def test_a_stage_after_an_empty_one_fails_because_of_that():
    class Odd(Exception):
        def __str__(self) -> str:
            raise ValueError

    def raises(source: Samples) -> Samples:
        yield from source
        raise Odd

    result = trace([samples(3), keep_with_caption, keep_all, raises])
    assert result.verdict == (
        "stage 4 raises raises Odd without a message: the run would end there; "
        "its input was empty, the last stage that got anything is stage 2 keep_with_caption"
    )


def test_warnings_count_even_if_their_arguments_are_wrong(monkeypatch: pytest.MonkeyPatch):
    def warned(source: Samples) -> Samples:
        for _ in source:
            logging.getLogger("somebody").warning("cannot read %d", "this")
        yield from ()

    def warns(source: Samples) -> Samples:
        for _ in source:
            warnings.warn("odd", UserWarning, stacklevel=1)
        yield from ()

    class Quiet(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            pass

    # Those of pytest raise an error for a record that cannot be formatted.
    monkeypatch.setattr(logging.getLogger(), "handlers", [Quiet()])
    assert str(trace([samples(3), warned])).endswith(
        "stage 2 logged 3 warnings, the first: cannot read %d"
    )
    shown = warnings.showwarning
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = trace([samples(2), warns])
    assert warnings.showwarning is shown
    assert str(result).endswith("stage 2 logged 2 warnings, the first: UserWarning: odd")
    assert [str(warning.message) for warning in caught] == ["odd", "odd"]


def test_arguments_of_a_stage_are_shown_in_short():
    def pick(source: Samples, *_: object, **__: object) -> Samples:
        yield from source

    stage = functools.partial(pick, (1, "a"), [1, 2, 3, 4], 5, x=None, f=print, d={1: 2}, handler=1)
    result = trace([samples(1), stage])
    assert result.stages[1].title == "pick([1, 'a'], list of 4, 5, f=print, d=dict)"


def test_long_titles_are_cut_to_the_width_of_a_table():
    stages = [StageTrace(1, "a" * 21), StageTrace(2, "b" * 20, inputs=1234, out=5, errors=2)]
    rows = list(table(stages, 80))
    assert rows[1].startswith("  1  aaaaaaaaaaaaaaaaa...          -          0 ")
    assert rows[2].startswith("  2  bbbbbbbbbbbbbbbbbbbb      1,234          5 ")
    assert {len(row) for row in rows} == {len(rows[0])}
    assert next(table(stages[1:], 200)).startswith("  #  stage                        in")


def test_a_run_that_was_stopped_before_a_stage_ran_did_not_start():
    run = TraceRun(take_apart([samples(1)]), 1, 1.0)
    run.blocked = (-1, 2.0)
    assert verdict_of(run, run.stages[:-1], "blocked") == "the pipeline did not start in time"


def test_batches_and_their_leftovers_are_counted_by_what_is_in_them():
    class Batched:  # shaped like webdataset's curried filter
        def __init__(self) -> None:
            self.f, self.args, self.kw = batched, (4,), {"partial": False}

        def __call__(self, source: Iterable[Any]) -> Iterator[list[Any]]:
            return batched(source, *self.args)

    result = trace([samples(10), Batched()])
    assert (result.stages[1].kind, result.stages[1].rows) == ("batch", 8)
    assert result.verdict.startswith(
        "nothing is lost but the last 2, too few for another batch of 4: 10 samples"
    )
    few = trace([samples(3), Batched()])
    assert "gets 3 samples, too few for one batch of 4" in few.verdict


def batched(source: Iterable[Any], size: int) -> Iterator[list[Any]]:
    items = iter(source)
    while len(batch := list(itertools.islice(items, size))) == size:
        yield batch


@pytest.mark.parametrize(
    ("pause", "said"),
    [
        # The input ends in time, and the stage after it.
        (40, "stage 2 slow drops 2 of 2 samples; fields seen: jpg; time was up"),
        (60, "stage 2 slow took 2 items and gave none before time was up"),
    ],
)
def test_time_that_runs_out_before_anything_comes_is_told_as_such(
    pause: int, said: str, clock: Clock
):
    def slow(source: Samples) -> Samples:
        for sample in source:
            clock.sleep(pause)
            if sample["__key__"] == "never":
                yield sample

    result = trace([iter(samples(1000)), slow], seconds=100)
    assert (result.ending, result.verdict) == ("time", said)
    assert not result.ok


def test_a_source_that_is_slow_to_close_does_not_change_the_verdict(up: threading.Event):
    closed = threading.Event()

    def source() -> Samples:
        try:
            yield from samples(100)
        finally:
            up.set()
            closed.wait()

    result = trace([source, keep_with_caption], samples=10, seconds=LONG)
    closed.set()
    assert result.ending == "samples"
    assert "drops 10 of 10 samples" in result.verdict
