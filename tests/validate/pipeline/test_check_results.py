"""What the checks of a loader say of its runs. The runs are made by hand: no process is started."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.validate.pipeline.small_set import scanned, write
from wdsflow.validate.pipeline import check_loader
from wdsflow.validate.pipeline.checks.check_fork import check_fork
from wdsflow.validate.pipeline.checks.check_resume import check_resume
from wdsflow.validate.pipeline.checks.check_workers import WorkersCheck, check_workers
from wdsflow.validate.pipeline.checks.shared_reads import SharedRead
from wdsflow.validate.pipeline.loader.loader_messages import (
    EPOCH_END,
    LoaderFacts,
    LoaderRequest,
    LoaderRun,
    SavedState,
)
from wdsflow.validate.pipeline.loader.loader_runs import LoaderRuns
from wdsflow.validate.pipeline.user_code.load_pipeline import PipelineError
from wdsflow.validate.pipeline.values.marks import KEY, NUMBER, TEXT
from wdsflow.validate.pipeline.values.rows import NO_KEYS, Row
from wdsflow.validate.verdicts.check_result import Check, CheckResult

URLS = ("a.tar", "b.tar", "c.tar", "d.tar")
KEYS = [f"{shard}{number}" for shard in "abcd" for number in range(4)]
REQUEST = LoaderRequest(
    URLS, shard_keys=tuple(tuple(KEYS[start : start + 4]) for start in range(0, 16, 4)),
    unique_keys=True,
)  # fmt: skip


class Runs(LoaderRuns):
    """Runs whose results a function makes of their requests."""

    def __init__(self, result: Callable[[LoaderRequest], LoaderRun]) -> None:
        super().__init__("")
        self.result = result

    def run(self, request: LoaderRequest) -> LoaderRun:
        return self.result(request)


def rows(keys: Sequence[str]) -> list[list[Row]]:
    return [[{"key": KEY + key}] for key in keys]


def read(keys: Sequence[str] = KEYS, *, whole: bool = True, **facts: Any) -> LoaderRun:
    """Return a run whose only epoch gave some samples, one at a time."""
    return LoaderRun("ended", epochs=[rows(keys)], complete=[whole], opened=frozenset(URLS), **facts)  # fmt: skip


def failed(status: Any = "raised", **facts: Any) -> LoaderRun:
    return LoaderRun(status, **({"step": "reading", "error": "OSError: x"} | facts))


def messages(result: Any) -> list[str]:
    """Return the faults, with their severity; of none the summary, with the answer."""
    faults = [f"{fault.severity}: {fault.message}" for fault in result.faults]
    return faults or [f"{result.answer}: {result.summary}"]


# The start method.

WORKERS = LoaderFacts(workers=3, can_have_workers=True)
GLOBALS = replace(WORKERS, set_globals=("ROOT", "SIZE"), lines={"sets": "train.py:3"})


def forked(facts: LoaderFacts, spawned: LoaderRun, other: LoaderRun | None = None) -> list[str]:
    """Return the answer for a loader whose runs by spawn and forkserver are others."""
    other = other or read()

    def run(request: LoaderRequest) -> LoaderRun:
        assert request.workers == (None if facts.workers else 2)
        return other if request.start_method == "fork" else spawned

    return messages(check_fork(Runs(run), REQUEST, read(facts=facts)))


@pytest.mark.parametrize(
    ("facts", "spawned", "said"),
    [
        (WORKERS, read(), "right: the same samples by fork, spawn and forkserver"),
        (
            WORKERS,
            read([*KEYS[:-2], "e0"]),
            "error: spawn and forkserver: other samples than by fork: 2 are missing and 1 are new",
        ),
        (
            WORKERS,
            read([*KEYS, "e0"]),
            "error: spawn and forkserver: other samples than by fork: 0 are missing and 1 are new",
        ),
        (
            GLOBALS,
            read(KEYS[1:]),
            "error: spawn and forkserver: other samples than by fork: 1 are missing and 0 are new; making the loader sets the global ROOT and SIZE (train.py:3), which a worker that is not forked lacks",
        ),
        (
            replace(GLOBALS, set_globals=("ROOT",), lines={"sets": ""}),
            failed(error="NameError: ROOT"),
            "error: spawn and forkserver: NameError: ROOT; making the loader sets the global ROOT, which a worker that is not forked lacks",
        ),
        (WORKERS, read(KEYS[::-1]), "error: spawn and forkserver: another order than by fork"),
        (
            GLOBALS,
            failed(lacks_main_guard=True),
            'error: spawn and forkserver: a worker imports the script, which starts processes again: put that under if __name__ == "__main__"',
        ),
        (
            GLOBALS,
            failed(unpicklable=("train.py:5: dataset.f cannot be pickled: it is a lambda",)),
            "error: spawn and forkserver: train.py:5: dataset.f cannot be pickled: it is a lambda",
        ),
        (
            WORKERS,
            failed("hung", facts=LoaderFacts(lines={"reads": "train.py:9"})),
            "error: spawn and forkserver: train.py:9: reading hangs",
        ),
        (WORKERS, failed("hung"), "error: spawn and forkserver: reading hangs"),
        (
            WORKERS,
            failed(line="train.py:8"),
            "error: spawn and forkserver: train.py:8: OSError: x",
        ),
        (
            LoaderFacts(can_have_workers=True),
            failed(),
            "warning: with num_workers=2, spawn and forkserver: OSError: x",
        ),
        (
            WORKERS,
            failed(error="RuntimeError: context has already been set"),
            "right: it sets the start method itself: no other is used",
        ),
        (
            replace(WORKERS, has_start_method=True),
            failed(),
            "right: its DataLoader has its own multiprocessing_context: no other method is used",
        ),
        (
            LoaderFacts(),
            failed(),
            "not judged: no DataLoader is found in it, so no start method was tried",
        ),
    ],
)
def test_the_start_methods_of_workers_are_compared(
    facts: LoaderFacts, spawned: LoaderRun, said: str
) -> None:
    assert forked(facts, spawned) == [said]


def test_a_fault_of_every_start_method_is_one_with_no_word_on_globals() -> None:
    assert forked(GLOBALS, failed(), failed()) == ["error: fork, spawn and forkserver: OSError: x"]


def test_an_order_that_differs_from_run_to_run_is_no_fault_of_a_start_method() -> None:
    first = iter([read(), read(KEYS[::-1])])
    runs = Runs(lambda request: next(first, read(KEYS[::-1])) if request.start_method == "fork" else read(KEYS[1:] + KEYS[:1]))  # fmt: skip
    runs.run_all = lambda requests: [runs.run(request) for request in requests]  # type: ignore[method-assign]

    assert messages(check_fork(runs, REQUEST, read(facts=WORKERS))) == [
        "right: the same samples by fork, spawn and forkserver"
    ]


@pytest.mark.parametrize("again", [read(KEYS[:8] * 2), read(whole=False), read([])])
def test_runs_by_fork_that_differ_show_no_difference_of_others(again: LoaderRun) -> None:
    results = [again, read(), read(KEYS[:3]), read(KEYS[:3])]
    runs = Runs(failed)
    runs.run_all = lambda requests: results[: len(requests)]  # type: ignore[method-assign]

    assert messages(check_fork(runs, REQUEST, read(facts=WORKERS))) == [
        "right: it starts by fork, spawn and forkserver; its samples were not compared: two runs by fork differ, or do not end"
    ]


# Workers and ranks.


def divided(request: LoaderRequest, facts: LoaderFacts | None = None) -> LoaderRun:
    """Return what a loader gives that divides its samples among ranks."""
    return read(KEYS[request.rank :: request.ranks], facts=facts or LoaderFacts())


def workers_messages(
    result: Callable[[LoaderRequest], LoaderRun],
    facts: LoaderFacts | None = None,
    request: LoaderRequest = REQUEST,
) -> tuple[list[str], tuple[str, ...]]:
    """Return the answer about workers, and its notes."""
    answer = check_workers(Runs(result), request, read(facts=facts or WORKERS))
    return messages(answer), answer.notes


def test_workers_and_ranks_that_share_the_samples_are_right() -> None:
    assert workers_messages(divided) == (
        ["right: each sample once with 1 worker, with 2 workers, with 3 workers, with 4 workers and on 2 ranks"],
        (),
    )  # fmt: skip


def test_fewer_shards_than_workers_are_noted() -> None:
    few = replace(REQUEST, urls=URLS[:2], shard_keys=REQUEST.shard_keys[:2])

    assert workers_messages(divided, request=few) == (
        ["right: each sample once with 1 worker, with 2 workers and on 2 ranks"],
        ("workers: the shards are too few for more than 2 workers",),
    )
    # A map-style dataset is divided by its items.
    map_style = replace(WORKERS, map_style=True)
    assert workers_messages(divided, map_style, few)[1] == ()


def test_one_shard_is_not_divided_among_ranks() -> None:
    one = replace(REQUEST, urls=URLS[:1], shard_keys=REQUEST.shard_keys[:1])

    assert workers_messages(divided, request=one) == (
        ["right: each sample once with 1 worker"],
        ("workers: the shards are too few for more than 1 worker",),
    )


def test_what_one_process_does_not_read_is_told_of_it() -> None:
    def run(request: LoaderRequest) -> LoaderRun:
        keys = [key for key in KEYS if not key.endswith("3")]
        return read(keys[request.rank :: request.ranks])

    assert workers_messages(run)[0] == [
        "error: the last sample of each shard never comes out (such as a3)"
    ]


def test_a_loader_without_a_dataloader_is_tried_on_ranks_only() -> None:
    assert workers_messages(divided, LoaderFacts()) == (
        ["right: each sample once on 2 ranks"],
        ("workers: no DataLoader is found in it, so no worker was tried",),
    )


def test_a_loader_that_fails_without_workers_is_not_judged() -> None:
    assert workers_messages(lambda _: failed(line="train.py:2")) == (
        ["not judged: it does not run without workers: train.py:2: OSError: x"],
        (),
    )


def test_ranks_without_a_group_are_noted() -> None:
    def run(request: LoaderRequest) -> LoaderRun:
        return replace(divided(request), group_error="no network" if request.rank else "")

    assert workers_messages(run, LoaderFacts())[1] == (
        "workers: ranks ran without a group of torch.distributed: no network",
        "workers: no DataLoader is found in it, so no worker was tried",
    )


def test_ranks_have_as_many_workers_as_the_loader_but_for_those_that_repeat() -> None:
    asked: list[int | None] = []

    def run(request: LoaderRequest) -> LoaderRun:
        if request.ranks > 1:
            asked.append(request.workers)
        repeats = request.workers == 2 and request.ranks == 1 and len(request.keys) == len("x")
        return read(KEYS * 2) if repeats else divided(request)

    check_workers(Runs(run), REQUEST, read(facts=WORKERS))
    check_workers(Runs(run), REQUEST, read(facts=replace(WORKERS, workers=1)))
    check_workers(Runs(run), REQUEST, read(facts=replace(WORKERS, workers=0)))
    check_workers(Runs(run), replace(REQUEST, keys=frozenset("x")), read(facts=WORKERS))

    assert asked == [2, 2, 1, 1, 0, 0, 0, 0]


def test_a_shard_that_is_never_opened_is_a_warning() -> None:
    alone = replace(read(KEYS[:12]), opened=frozenset(URLS[:3]))
    workers = WorkersCheck(Runs(failed), REQUEST, read(facts=LoaderFacts(lines={"reads": "train.py:4"})))  # fmt: skip
    workers.find_unread(alone)

    assert [(fault.severity, fault.message) for fault in workers.faults.values()] == [
        (
            "warning",
            "train.py:4: in its first epoch it never opens 1 shard of 4 (such as d.tar): right only if it holds them out on purpose, or reads them in a later epoch",
        )
    ]
    # Something else than Python opens the others, or the epoch was not read to its end.
    for run in (replace(alone, opened=frozenset(URLS[:2])), replace(alone, complete=[False])):
        workers.faults.clear()
        workers.find_unread(run)
        assert not workers.faults


def compared(
    shared: SharedRead, alone: LoaderRun | None = None, facts: LoaderFacts = WORKERS, **changes: Any
) -> list[str]:
    """Return what a comparison of one process with several says, faults before notes."""
    workers = WorkersCheck(Runs(failed), replace(REQUEST, **changes), read(facts=facts))
    workers.compare(alone or read(), shared)
    return [fault.message for fault in workers.faults.values()] + workers.notes


def in_batches(*sizes: int) -> LoaderRun:
    """Return a run whose epoch gave batches of the first samples."""
    keys = iter(KEYS)
    batches = [[{"key": KEY + next(keys)} for _ in range(size)] for size in sizes]
    return replace(read(), epochs=[batches])


BY_WORKER = "split the shards by torch.utils.data.get_worker_info(), or by wds.split_by_worker"
BY_RANK = "split the shards by rank (nodesplitter=wds.split_by_node), or use a DistributedSampler"


@pytest.mark.parametrize(
    ("shared", "said"),
    [
        (
            SharedRead([failed(line="train.py:6")], "with 2 workers", 2),
            ["with 2 workers it ends: train.py:6: OSError: x"],
        ),
        (
            SharedRead([read(), failed("hung")], "on 2 ranks", 2),
            ["on 2 ranks it stops: reading hangs"],
        ),
        (
            SharedRead([read(KEYS * 2)], "with 2 workers", 2),
            [f"with 2 workers each worker reads all samples: they come out 2 times: {BY_WORKER}"],
        ),
        (
            SharedRead([read(), read()], "on 2 ranks", 2),
            [f"on 2 ranks each rank reads all samples: they come out 2 times: {BY_RANK}"],
        ),
        (
            SharedRead([read(KEYS + KEYS[4:8])], "with 2 workers", 2),
            [f"with 2 workers 4 samples of 16 come out more than once (such as b0): {BY_WORKER}"],
        ),
        (
            SharedRead([read(KEYS[:8]), read(KEYS[9:])], "on 2 ranks", 2),
            [
                "on 2 ranks they get 8 and 7 items: the rank with more waits in its next collective operation, and the run hangs",
                "workers: on 2 ranks 1 sample left out, for full batches or equal shares",
            ],
        ),
        (
            SharedRead([read(KEYS[:8]), read(KEYS[8:] + KEYS[:1])], "on 2 ranks", 2),
            [
                "on 2 ranks they get 8 and 9 items: the rank with more waits in its next collective operation, and the run hangs",
                "workers: on 2 ranks 1 sample repeated, so that all ranks have as many (such as a0)",
            ],
        ),
        # One worker has one batch less: what a batch may leave out is not known.
        (
            SharedRead([in_batches(4, 4, 4, 3)], "with 2 workers", 2),
            ["workers: with 2 workers 1 sample left out, for full batches or equal shares"],
        ),
        (
            SharedRead([in_batches(4, 4, 3, 3)], "with 2 workers", 2),
            ["with 2 workers 2 samples of 16 never come out (such as d2)"],
        ),
        (
            SharedRead([in_batches(5, 5)], "with 2 workers", 2),
            ["workers: with 2 workers 6 samples left out, for full batches or equal shares"],
        ),
        (
            SharedRead([read([f"e{number}" for number in range(9)])], "with 2 workers", 2),
            ["with 2 workers 16 samples of 16 never come out (such as a0)"],
        ),
    ],
)
def test_what_several_processes_read_is_compared_with_what_one_reads(
    shared: SharedRead, said: list[str]
) -> None:
    assert compared(shared) == said


def test_samples_without_keys_that_differ_each_time_are_not_compared() -> None:
    def drawn() -> LoaderRun:
        return LoaderRun("ended", epochs=[[[{"": TEXT + random.random().hex()}] for _ in KEYS]], complete=[True])  # fmt: skip

    assert compared(SharedRead([drawn()], "with 2 workers", 2), drawn()) == [
        f"workers: with 2 workers nothing was compared: {NO_KEYS}"
    ]


ENDLESS = replace(WORKERS, repeats=True)


@pytest.mark.parametrize(
    ("shared", "facts", "said"),
    [
        (
            SharedRead([read(KEYS, whole=False), read(KEYS, whole=False)], "on 2 ranks", 2),
            WORKERS,
            f"on 2 ranks each rank gives the same samples in the same order: {BY_RANK}",
        ),
        # Workers give items in turn.
        (
            SharedRead([read([key for key in KEYS[:6] for _ in range(2)], whole=False)], "with 2 workers", 2),
            WORKERS,
            f"with 2 workers each worker gives the same samples in the same order: {BY_WORKER}",
        ),
        (
            SharedRead([read(KEYS), read(KEYS[::-1])], "on 2 ranks", 2),
            ENDLESS,
            f"on 2 ranks the ranks give the same samples: {BY_RANK}",
        ),
        # Those that are drawn may be the same.
        (
            SharedRead([read(KEYS), read(KEYS[::-1])], "on 2 ranks", 2),
            replace(ENDLESS, resampled=True),
            "",
        ),
        (
            SharedRead([read(KEYS, whole=False), read(KEYS[::-1], whole=False)], "on 2 ranks", 2),
            WORKERS,
            "",
        ),
        (SharedRead([read(KEYS[:8]), read(KEYS[4:12])], "on 2 ranks", 2), ENDLESS, ""),
        (SharedRead([read(KEYS[:3]), read(KEYS[:3])], "on 2 ranks", 2), ENDLESS, ""),
        (SharedRead([read(KEYS[:8]), read(KEYS[:2])], "on 2 ranks", 2), ENDLESS, ""),
        (SharedRead([read(KEYS[:3] * 3), read(KEYS[:3] * 3)], "on 2 ranks", 2), ENDLESS, ""),
        (SharedRead([read(KEYS)], "with 1 worker", 1), ENDLESS, ""),
        (SharedRead([read(KEYS)], "with 2 workers", 2), ENDLESS, ""),
    ],
)  # fmt: skip
def test_endless_runs_of_several_processes_are_compared_with_each_other(
    shared: SharedRead, facts: LoaderFacts, said: str
) -> None:
    assert compared(shared, facts=facts) == ([said] if said else [])


def test_endless_workers_and_ranks_that_differ_are_right() -> None:
    def run(request: LoaderRequest) -> LoaderRun:
        return read(KEYS[request.rank :: request.ranks], whole=False)

    assert workers_messages(run, LoaderFacts())[0] == [
        "right: workers and ranks do not repeat each other on 2 ranks"
    ]


def drawing(alone: Sequence[Row], shared: Sequence[Row]) -> Callable[[LoaderRequest], LoaderRun]:
    """Return the runs of a loader that draws numbers for copies of one sample."""

    def run(request: LoaderRequest) -> LoaderRun:
        if request.urls != ("copies.tar",):
            return divided(request)
        drawn = shared if request.workers else alone
        return LoaderRun("ended", epochs=[[[row] for row in drawn]], complete=[True])

    return run


def values(column: str, *texts: str, kind: str = TEXT) -> list[Row]:
    return [{"label": TEXT + "same", column: kind + text} for text in texts]


APART = values("crop", *"abcdefghijklmnop")
TWICE = values("crop", *"aabbccddeeffgghh")
SEEDS = "train.py:2: it has num_workers=0; each worker draws the same random numbers: in copies of one sample, {} has each value twice with 2 workers, and differs with one"


@pytest.mark.parametrize(
    ("alone", "shared", "column"),
    [
        (APART, TWICE, "column 'crop'"),
        (values("", *"abcdefghijklmnop"), values("", *"aabbccddeeffgghh"), "the content"),
        (APART, APART, ""),
        # With one worker the values come twice as well.
        (TWICE, TWICE, ""),
        (values("n", *"abcdefgh", kind=NUMBER), values("n", *"aabbccdd", kind=NUMBER), ""),
        (APART, values("crop", *"aabbccddeefghijk"), ""),
        (values("crop", *"abc"), values("crop", *"aabbcc"), ""),
        ([], TWICE, ""),
        (APART, [], ""),
    ],
)
def test_workers_that_draw_the_same_numbers_are_named(
    alone: list[Row], shared: list[Row], column: str
) -> None:
    facts = LoaderFacts(can_have_workers=True, lines={"seeds": "train.py:2"})
    request = replace(REQUEST, clone_urls=("copies.tar",))
    answer = check_workers(Runs(drawing(alone, shared)), request, read(facts=facts))

    assert [fault.message for fault in answer.faults] == ([SEEDS.format(column)] if column else [])
    assert [fault.code for fault in answer.faults] == ["P331"] * bool(column)


def test_a_loader_that_fails_on_copies_has_a_note_on_its_random_numbers() -> None:
    def run(request: LoaderRequest) -> LoaderRun:
        return divided(request) if request.urls == URLS or not request.workers else failed()

    request = replace(REQUEST, clone_urls=("copies.tar",))
    assert workers_messages(run, request=request)[1] == (
        "workers: random numbers were not compared: with copies of one sample it ends: OSError: x",
    )


# Resuming.


class Saving:
    """A loader with a state, of eight samples an epoch; ``wrong``: what it does wrong."""

    def __init__(self, wrong: str = "") -> None:
        self.wrong = wrong
        self.runs = 0

    def keys_of(self, epoch: int) -> list[str]:
        keys = [f"{number}" for number in range(8)]
        if self.wrong == "changes its order":
            random.Random(self.runs).shuffle(keys)
        return keys[epoch:] + keys[:epoch]

    def __call__(self, request: LoaderRequest) -> LoaderRun:
        self.runs += 1
        run = LoaderRun("ended", step="reading")
        epoch, items = 0, 0
        if request.state is not None:
            epoch, items = (int(part) for part in request.state.split())
            if self.wrong == "refuses":
                return failed(step="load_state_dict", line="train.py:7")
            if self.wrong == "late with workers" and request.workers is None:
                items += 1
        elif request.save_at and self.wrong == "saves none":
            return failed(step="state_dict")
        for number in range(epoch, epoch + request.epochs):
            keys = self.keys_of(number)
            if self.wrong == "reads on after a state" and request.save_at and not request.state:
                keys = keys[::-1]
            if self.wrong == "once" and number:
                keys = []
            if self.wrong == "gives no keys":
                run.epochs.append([[{"": TEXT + random.random().hex()}] for _ in keys])
                run.complete.append(True)
                continue
            if number == epoch:
                keys = keys[items:]
            run.epochs.append(rows(keys))
            run.complete.append(self.wrong != "never ends")
        for position in request.save_at:
            at, count = position
            before = items if at == epoch and request.state is not None else 0
            state = b"%d %d" % ((at + 1, 0) if count == EPOCH_END else (at, before + count))
            run.states.append(SavedState(position, state))
            if self.wrong == "shares" and count > 0:
                run.changed_states.append(position)
        return run


WITHOUT = "(dataset.state_dict); without workers (num_workers=0) it resumes as it should"


def resumed(wrong: str, **facts: Any) -> tuple[list[str], tuple[str, ...]]:
    loader = Saving(wrong)
    runs = Runs(loader)
    # One after another.
    runs.run_all = lambda requests: [runs.run(request) for request in requests]  # type: ignore[method-assign]
    runs.run_ranks = runs.run_all  # type: ignore[method-assign]
    request = replace(REQUEST, epochs=3, shard_keys=(), unique_keys=True)
    base = loader(request)
    base.facts = LoaderFacts(**({"state_path": ""} | facts))
    answer = check_resume(runs, request, base)
    return messages(answer), answer.notes


@pytest.mark.parametrize(
    ("wrong", "facts", "said", "notes"),
    [
        (
            "",
            {},
            ["right: 8 states resumed in new processes, with the samples of an undisturbed run"],
            (),
        ),
        (
            "saves none",
            {"lines": {"saves": "train.py:5"}},
            ["error: train.py:5: no state can be saved: OSError: x"],
            (),
        ),
        ("gives no keys", {}, [f"not judged: {NO_KEYS}"], ()),
        (
            "refuses",
            {"state_path": "dataset"},
            ["error: train.py:7: resumed from the state taken at the start of epoch 1: train.py:7: OSError: x (dataset.state_dict)"],
            (),
        ),
        (
            "shares",
            {"lines": {"reads": "train.py:1"}},
            ["error: train.py:1: the state taken after 7 items of epoch 1 changes later: it shares memory with the running loader"],
            (),
        ),
        (
            "once",
            {},
            ["error: no epoch after the first hands out anything: at its end, the position is not set back"],
            (),
        ),
        (
            "reads on after a state",
            {},
            [
                "error: taking a state changes which samples come next",
                "error: resumed from the state taken after 7 items of epoch 1: 1 sample repeated (such as 7) and 1 sample lost (such as 0)",
            ],
            (),
        ),
        (
            "changes its order",
            {},
            ["error: resumed from the state taken after 7 items of epoch 1: 1 sample repeated (such as 4) and 1 sample lost (such as 0)"],
            ("resume: its order is not reproducible; samples that are repeated or lost count, not their order",),
        ),
        (
            "never ends",
            {},
            ["right: 6 states resumed in new processes, with the samples of an undisturbed run"],
            ("resume: an epoch was not read to its end, so the end of an epoch was not tried",),
        ),
        (
            "late with workers",
            {"workers": 2, "state_path": "dataset"},
            [
                f"error: resumed from the state taken at the start of epoch 1: 1 sample lost (such as 0) {WITHOUT}",
                f"error: resumed from the state taken after 7 items of epoch 1: the epoch begins again: 7 samples come a second time {WITHOUT}",
            ],
            (),
        ),
    ],
)  # fmt: skip
def test_a_loader_that_resumes_wrongly_is_told_with_what_it_does(
    wrong: str, facts: dict[str, Any], said: list[str], notes: tuple[str, ...]
) -> None:
    assert resumed(wrong, **facts) == (said, notes)


# All checks of a loader.


def checked(
    result: Callable[[LoaderRequest], LoaderRun],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *checks: Check,
) -> list[CheckResult]:
    """Return the answers about a loader of a shard of three samples."""
    monkeypatch.setattr(check_loader, "LoaderRuns", lambda *_: Runs(result))
    evidence, options = scanned([write(folder / "0.tar", 3)], "headers")
    return check_loader.check_loader("train.py:make", checks, evidence, options)


def starts_by_fork_only(request: LoaderRequest) -> LoaderRun:
    if request.start_method in ("", "fork"):
        return failed(facts=WORKERS, line="train.py:2")
    return read()


def test_a_loader_that_runs_by_another_start_method_only_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = checked(starts_by_fork_only, tmp_path, monkeypatch, "resume", "fork", "workers")

    as_it_is = "not judged: it does not run as it is: train.py:2: OSError: x"
    assert [(result.check, *messages(result)) for result in results] == [
        ("fork", "error: fork: train.py:2: OSError: x"),
        ("resume", as_it_is),
        ("workers", as_it_is),
    ]


@pytest.mark.parametrize(
    ("result", "checks", "said"),
    [
        (starts_by_fork_only, ["resume"], "train.py:make does not run: train.py:2: OSError: x"),
        (
            lambda _: failed(facts=WORKERS),
            ["fork"],
            "train.py:make does not run: OSError: x",
        ),
        (lambda _: failed(), ["fork"], "train.py:make does not run: OSError: x"),
        # Each method has a fault of its own.
        (
            lambda request: failed(error=request.start_method, facts=WORKERS),
            ["fork"],
            "train.py:make does not run: ",
        ),
        # It has no workers that could start otherwise.
        (
            lambda request: replace(
                starts_by_fork_only(request), facts=LoaderFacts(can_have_workers=True)
            ),
            ["fork"],
            "train.py:make does not run: train.py:2: OSError: x",
        ),
        (
            lambda _: read([]),
            ["fork"],
            "train.py:make gives no sample: wdsflow validate --pipeline train.py:make without --check shows why",
        ),
    ],
)
def test_a_loader_that_cannot_be_checked_is_refused(
    result: Callable[[LoaderRequest], LoaderRun],
    checks: list[Check],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(PipelineError) as caught:
        checked(result, tmp_path, monkeypatch, *checks)

    assert str(caught.value) == said
