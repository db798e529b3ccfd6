"""What training says when it ends by itself, from the first word to the last."""

import errno
import os
import signal
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.clock import Clock
from tests.golden_file import check_text
from wdsflow import FeedOptions
from wdsflow.shards.source.base import named
from wdsflow.training.feed.resume.resume_fixes import resume_fixes
from wdsflow.training.feed.resume.state import OtherSubset, check_state
from wdsflow.training.sample_tasks import Blob, HangingShard, SampleRef, StreamKey, Task
from wdsflow.training.stalls import progress
from wdsflow.training.stalls.hanging import BusyDecoder
from wdsflow.training.stalls.loss_tally import LEFT_OVER, REPEATED, Damage, FeedLoss, LossTally
from wdsflow.training.stalls.stall import WorkerFacts, stall_message
from wdsflow.training.workers import decoder_deaths, slots
from wdsflow.training.workers.decoder_deaths import Death, death_message, not_started_message

GOLDEN = Path(__file__).parent / "golden" / "messages.txt"
TRAIN = FeedOptions(argv=("--workers", "2"))
LOOP = FeedOptions()  # a custom loop, without a command line
WORKER = WorkerFacts(
    number=2, shards=3, shard="/data/1.tar", usable=3, batch_size=64, passes=1, workers=4
)


def tasks(keys, shard="/data/1.tar"):
    return [
        Task(SampleRef(named(shard), key, Blob("jpg", 1, 0), ()), 0, StreamKey(0, 0, 0), 0, 0)
        for key in keys
    ]


def busy(number, seconds, keys, **more):
    return BusyDecoder(f"decoder {number}", tasks(keys), seconds, **more)


def losses(kept, **counts):
    tally = LossTally(kept=kept)
    for reason, count in counts.items():
        for number in range(count):
            tally.add_loss(
                FeedLoss(
                    "decode",
                    reason,
                    f"k{number}",
                    named("/data/7.tar"),
                    "a detail" if reason == "cut" else "",
                )
            )
    return tally


def damaged(*kinds, kept=0):
    tally = LossTally(kept=kept)
    for number, what in enumerate(kinds):
        tally.add_damage(Damage(named(f"/data/{number}.tar"), what, f"detail {number}"))
    return tally


STACK = ("f (x.py:1)", "g (x.py:2)", "h (x.py:3)", "i (x.py:4)")
STALLS = {
    "nothing is known": {},
    "a worker without shards": {
        "worker": WORKER._replace(shards=0, shard="", usable=0, passes=0),
        "waited": 300.0,
        "rank": 1,
        "world_size": 2,
    },
    "a worker before the end of its pass": {
        "tally": losses(5),
        "worker": WORKER._replace(passes=0),
        "waited": 1234.5,
    },
    "a sample less than a batch": {
        "tally": losses(3),
        "worker": WORKER._replace(usable=63),
        "lost_in_a_row": 1,
    },
    "as many samples as a batch": {
        "tally": losses(3),
        "worker": WORKER._replace(usable=64),
        "lost_in_a_row": 2,
    },
    "one worker with one shard": {
        "tally": losses(3),
        "worker": WORKER._replace(shards=1, workers=1, usable=1),
        "options": replace(TRAIN, schedule="balanced"),
    },
    "one worker without samples": {
        "tally": losses(3),
        "worker": WORKER._replace(workers=1, usable=0),
    },
    "a custom loop": {"tally": losses(3), "worker": WORKER, "options": replace(LOOP, k=3.0)},
    "losses of five in a hundred": {"tally": losses(95, cut=5), "waited": 60.0},
    "losses of four in a hundred": {
        "tally": losses(96, cut=4),
        "waited": 60.0,
        "data": "/data/{0..9}.tar",
    },
    "four reasons": {"tally": losses(0, a=4, b=3, c=2, cut=1), "worker": WORKER},
    "five reasons": {"tally": losses(90, a=4, b=3, c=2, cut=1, e=1)},
    "three damaged shards": {
        "tally": damaged("cut", "no-tar", "unreadable", kept=9),
        "waited": 60.0,
    },
    "four damaged shards": {
        "tally": damaged("missing", "unreadable", "cut", "cut"),
        "data": "/data/{0..9}.tar",
        "worker": WORKER,
    },
    "a wrong checksum": {"tally": damaged("wrong-checksum", "cut", kept=9)},
    "missing shards of a worker with samples": {
        "tally": damaged("missing"),
        "worker": WORKER,
        "waited": 60.0,
    },
    "missing shards of a worker without samples": {
        "tally": damaged("missing"),
        "worker": WORKER._replace(usable=0),
        "data": "pipe:cat 0.tar",
    },
    "a decoder hangs": {"tally": losses(9), "waited": 60.0, "busy": [busy(0, 61.4, "a")]},
    "decoders and shards hang": {
        "tally": losses(9),
        "waited": 60.0,
        "busy": [busy(0, 61.0, "a"), busy(1, 65.0, "b", in_tokenizer=True)],
        "reading": [
            HangingShard(named("/data/1.tar"), 62.0, 0, ""),
            HangingShard(named("/data/2.tar"), 63.0, 1200, "last"),
        ],
    },
    "nine hang": {
        "tally": losses(9),
        "waited": 60.0,
        "busy": [
            busy(number, 60.0 + number, "a", stack=STACK if number == 1 else ())
            for number in range(4)
        ],
        "reading": [
            HangingShard(named(f"pipe:cat {number}"), 1000.0, 1, "k") for number in range(5)
        ],
    },
    "a decoder is stopped": {
        "tally": losses(9),
        "busy": [busy(0, 61.0, "a", stopped=True), busy(1, 99.0, "bcdefghij"), busy(2, 60.0, "")],
    },
    "another rank ended": {"tally": losses(9, cut=9), "event": "the other rank ended", "rank": 1},
}


@pytest.mark.parametrize("name", STALLS)
def test_a_stall_is_explained(name):
    check_text(
        GOLDEN,
        f"stall: {name}",
        stall_message(**{"options": TRAIN, "tally": LossTally(), **STALLS[name]}),
    )


DIED = Death(
    "decoder 1 (process 42)", None, tasks("a"), in_tokenizer=False, processes=4, recognised=True
)
DEATHS = {
    "its pipe is closed": DIED,
    "it ends with status 0": DIED._replace(code=0, tasks=tasks("")),
    "it ends with status 3": DIED._replace(code=3, in_tokenizer=True),
    "the memory is full": DIED._replace(code=-signal.SIGKILL),
    "the memory is full for two": DIED._replace(
        code=-signal.SIGKILL, processes=2, tasks=tasks("ab")
    ),
    "the memory is full for one": DIED._replace(code=-signal.SIGKILL, processes=1),
    "the memory is full for workers": DIED._replace(code=-signal.SIGKILL, recognised=False),
    "the memory is full for one worker": DIED._replace(
        code=-signal.SIGKILL, processes=1, recognised=False
    ),
    "shared memory is full": DIED._replace(code=-signal.SIGBUS, tasks=tasks("abcdefgh")),
    "shared memory is full for workers": DIED._replace(
        code=-signal.SIGBUS, tasks=tasks("abcdefghi"), recognised=False
    ),
    "a library crashes": DIED._replace(code=-signal.SIGSEGV, tasks=tasks(['"\\'])),
    "a library aborts at a pipe": DIED._replace(
        code=-signal.SIGABRT, tasks=tasks("a", "pipe:cat 1.tar")
    ),
    "a name cannot be typed": DIED._replace(code=-signal.SIGABRT, tasks=tasks(["a\n"])),
    "a user ends it": DIED._replace(code=-signal.SIGTERM),
}


@pytest.fixture
def memory(monkeypatch):
    monkeypatch.setattr(
        decoder_deaths, "host_memory", lambda: SimpleNamespace(free=3 << 20, total=8 << 30)
    )
    state = SimpleNamespace(f_frsize=4096, f_bavail=1 << 10, f_blocks=1 << 14, f_bfree=7)
    monkeypatch.setattr(slots, "os", SimpleNamespace(statvfs=lambda folder: state))


@pytest.mark.parametrize("options", [TRAIN, LOOP], ids=["command", "loop"])
@pytest.mark.parametrize("name", DEATHS)
def test_the_death_of_a_decoder_is_explained(name, options, memory):
    text = death_message(DEATHS[name], options)
    check_text(GOLDEN, f"death: {name}{'' if options.argv else ', custom loop'}", text)


@pytest.mark.parametrize("recognised", [True, False])
@pytest.mark.parametrize("number", [0, 1, 7])
def test_a_decoder_that_cannot_be_started_is_explained(number, recognised):
    text = not_started_message(
        number, OSError(errno.EAGAIN, "no more"), TRAIN, recognised=recognised
    )
    check_text(GOLDEN, f"no decoder {number}{'' if recognised else ', custom transform'}", text)


def test_shared_memory_that_is_not_there_is_reported(monkeypatch):
    def statvfs(folder):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), folder)

    monkeypatch.setattr(slots, "os", SimpleNamespace(statvfs=statvfs))
    assert slots.shared_memory_state() == "/dev/shm is not there (No such file or directory)"


SHM = [
    "  /dev/shm has 4 MiB of 64 MiB free; more shared memory for a container: docker run --shm-size=8g ..., or fewer"
]


@pytest.mark.parametrize(
    ("error", "noted"),
    [
        (RuntimeError("cannot open /dev/shm/x"), True),
        (RuntimeError("unable to allocate shared memory"), True),
        (OSError(errno.ENOSPC, "No space left on device"), True),
        (OSError(errno.EIO, "Input/output error"), False),
        (RuntimeError("something else"), False),
    ],
)
def test_errors_for_want_of_shared_memory_get_a_note(error, noted, memory):
    found = slots.shared_memory_notes(error, "--decoders")
    assert found == ([f"{SHM[0]} processes: --decoders"] if noted else [])


def ran(monkeypatch, *, world_size=1, rank=0):
    """Return the progress of a run and its clock."""
    clock = Clock(monkeypatch, progress)
    return progress.Progress(
        FeedOptions(status_every=10.0), rank=rank, world_size=world_size
    ), clock


@pytest.mark.parametrize(("rank", "world_size"), [(0, 1), (0, 8)])
def test_an_epoch_is_told_as_it_comes(rank, world_size, monkeypatch, caplog):
    caplog.set_level("INFO", logger="wdsflow.training")
    shown, clock = ran(monkeypatch, rank=rank, world_size=world_size)
    tally = LossTally()
    shown.begin(2, 3000, tally, 5.0)
    for batch, seconds in enumerate((9.0, 1.0, 9.5, 0.5), 1):
        clock.sleep(seconds)
        tally.kept += 1000
        tally.add_loss(FeedLoss("decode", "cut", f"k{batch}", named("/data/1.tar"), "a detail"))
        shown.step(1000, batch, tally, 5.0 + batch)
    for seconds in (9.9, 10.0, 19.0, 20.0, 29.9, 30.0, 41.0):
        shown.wait(seconds, tally, 9.0)
    tally.noted[REPEATED] += 9000
    tally.noted[LEFT_OVER] += 996
    for number in range(21):
        tally.add_damage(
            Damage(
                named(f"/data/{number}.tar"),
                ("cut", "no-tar", "unreadable")[min(number, 2)],
                "a detail",
            )
        )
    clock.sleep(20)
    shown.end(tally, 10.0)
    text = "\n".join(f"{record.levelname} {record.getMessage()}" for record in caplog.records)
    check_text(GOLDEN, f"progress of {world_size}", text)


@pytest.mark.parametrize(("kept", "lost"), [(100, 0), (100, 1), (99, 1), (990, 9), (0, 0), (0, 1)])
def test_one_lost_sample_in_a_hundred_is_a_warning(kept, lost, monkeypatch, caplog):
    caplog.set_level("INFO", logger="wdsflow.training")
    shown, clock = ran(monkeypatch)
    shown.begin(0, 1, LossTally(), 0.0)
    clock.sleep(4)
    shown.end(losses(kept, cut=lost), 5.0)
    [record] = caplog.records
    check_text(
        GOLDEN,
        f"end of an epoch: {kept} kept, {lost} lost",
        f"{record.levelname} {record.getMessage()}",
    )


@pytest.mark.parametrize(("waited", "said"), [(1.0, 1), (0.99, 0)])
def test_another_rank_reports_that_training_waited_a_tenth_of_the_time(
    waited, said, monkeypatch, caplog
):
    caplog.set_level("INFO", logger="wdsflow.training")
    shown, clock = ran(monkeypatch, rank=1, world_size=2)
    shown.begin(0, 1, LossTally(), 0.0)
    clock.sleep(10)
    shown.end(losses(200, cut=1), waited)
    assert len(caplog.records) == said


IDENTITY = {"schedule": "openclip", "data": "a", "ledger": None, "where": None, "kept samples": 0}
STATES = {
    "another version": ({"version": 2}, {}, ()),
    "no version": ({}, {}, ()),
    "other data": ({"version": 1}, {"data": "b"}, ()),
    "another predicate": (
        {"version": 1},
        {"ledger": "scored", "where": "score > 1", "kept samples": 4},
        ("--seed", "1"),
    ),
    "other scores": (
        {"version": 1},
        {"kept samples": 4},
        ("--name", "x", "--resume", "latest", "--seed", "1"),
    ),
    "other scores and data": ({"version": 1}, {"kept samples": 4, "data": "b"}, ()),
    "other scores of a loop": ({"version": 1}, {"kept samples": 4}, ()),
    "other scores of a named run": (
        {"version": 1},
        {"kept samples": 4},
        ("--name=x", "--resume=latest"),
    ),
}


@pytest.mark.parametrize("name", STATES)
def test_a_state_of_another_feed_is_refused(name):
    state, other, argv = STATES[name]
    with pytest.raises(ValueError, match="the state") as caught:
        check_state({**state, "identity": {**IDENTITY, **other}}, IDENTITY)
    error = caught.value
    if isinstance(error, OtherSubset):
        error.fixes = resume_fixes(replace(LOOP, argv=argv), error)
    check_text(GOLDEN, f"state: {name}", f"{type(error).__name__}: {error}")


def test_a_state_of_the_same_feed_is_taken():
    position = {"epoch": 0, "batch": 0, "streams": [], "base_seed": None}
    check_state({"version": 1, **position, "identity": {**IDENTITY, "more": 1}}, IDENTITY)
