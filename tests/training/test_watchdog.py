"""Real processes and gloo: what one rank meets, all ranks hear, and all end."""

import io
import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.clock import Clock
from wdsflow.training import StallError
from wdsflow.training import ranks as board
from wdsflow.training.stalls import watchdog
from wdsflow.training.stalls.watchdog import Watchdog

torch = pytest.importorskip("torch")
# Processes that it starts import PyTorch.

ROOT = Path(__file__).resolve().parent.parent.parent
MESSAGE = "of 2, worker 3: a whole pass over its 3 shards gave 0 usable samples"
STALL_AFTER = 1.0

# One process imports torch and forks all ranks of all cases: imports take longer than all the rest.
SCRIPT = r"""
import gc, json, os, socket, sys, time
from pathlib import Path
import torch
from torch import distributed
from wdsflow.training import ranks as board
from wdsflow.training.stalls import watchdog
from wdsflow.training.stalls.stall import StallError
from wdsflow.training.stalls.watchdog import Watchdog

MESSAGE, STALL_AFTER, OUT = sys.argv[1], float(sys.argv[2]), Path(sys.argv[3])
LONG = 3600  # seconds: however slow this machine is, the others hear of it, and who can end by itself does
ENDED = ("caught", "hanging")  # here somebody cannot
watchdog._HEARING = board._FAREWELL = LONG


def starve(dog, rank):
    with dog.waiting(lambda waited: StallError(f"rank {rank} {MESSAGE}")):
        while True:
            time.sleep(0.1)
            dog.check()


def reduce(dog, rank):
    distributed.all_reduce(torch.ones(3))


def wait(dog, rank):
    with dog.waiting(lambda waited: StallError("it should hear of the other rank before that")):
        dog.stall_after = LONG
        while True:
            time.sleep(0.1)
            dog.check()


def swallow(dog, rank):
    try:
        starve(dog, rank)
    except StallError as error:
        print(error, file=sys.stderr, flush=True)
        time.sleep(120)


def starve_and_go(dog, rank):
    try:
        starve(dog, rank)
    except StallError as error:
        print(error, file=sys.stderr, flush=True)
        os._exit(1)  # at once: the end of Python may take seconds here


def hang(dog, rank):
    with dog.waiting(lambda waited: StallError(f"rank {rank} {MESSAGE}")):
        time.sleep(120)  # never checks


def break_down(dog, rank):
    error = ValueError(f"\x1b[31m {MESSAGE}")
    dog.send_failure(error)
    raise error


def explained(dog, rank):
    try:
        reduce(dog, rank)
    except RuntimeError as error:
        stall = dog.explain(error)
        assert stall is not None
        raise stall from error


def end_first(dog, rank):
    raise SystemExit(0)


def end_later(dog, rank):
    time.sleep(3)  # nothing connects
    raise SystemExit(0)


CASES = {
    "first": (starve, reduce),
    "second": (reduce, starve),
    "waiting": (starve, wait),
    "caught": (reduce, swallow),
    "hanging": (hang, reduce),
    "other-error": (reduce, break_down),
    "explained": (explained, starve_and_go),
    "fallback": (reduce, starve),
    "good": (end_first, end_later),
}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run(case, rank, port):
    error = os.open(OUT / f"{case}-{rank}.err", os.O_WRONLY | os.O_CREAT)
    os.dup2(error, 1)
    os.dup2(error, 2)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE="2")
    if case not in ENDED:
        watchdog._GRACE = LONG
    if case == "fallback":
        del torch.distributed.Store.clone
    distributed.init_process_group("gloo")
    reduce(None, rank)
    dog = Watchdog(STALL_AFTER)
    dog.start()
    CASES[case][rank](dog, rank)


gc.freeze()  # else each of sixteen ends of Python looks through all of torch
processes = {}
for case in CASES:
    port = free_port()
    for rank in range(2):
        pid = os.fork()
        if not pid:
            break
        processes[pid] = f"{case}-{rank}"
    else:
        continue
    run(case, rank, port)
    raise SystemExit("this rank did not fail")

ended = {}
while processes:
    pid, status = os.wait()
    if pid in processes:
        ended[processes.pop(pid)] = os.waitstatus_to_exitcode(status)
print(json.dumps(ended))
"""


@pytest.fixture(scope="module")
def ends(tmp_path_factory):
    """Return how each rank of each case ended: exit code, stderr."""
    out = tmp_path_factory.mktemp("ranks")
    script = out / "ranks.py"
    script.write_text(SCRIPT)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
    }
    environment["OMP_NUM_THREADS"] = "1"
    command = [sys.executable, str(script), MESSAGE, str(STALL_AFTER), out]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    found = json.loads(done.stdout.splitlines()[-1])
    return {name: (code, (out / f"{name}.err").read_text()) for name, code in found.items()}


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize(
    "case",
    ["first", "second", "waiting", "caught", "hanging", "other-error", "explained", "fallback"],
)
def test_both_ranks_end_and_say_why(ends, case, rank):
    code, said = ends[f"{case}-{rank}"]
    assert code == 1, said
    assert MESSAGE in said
    # Python itself prints the rank's own error as it is.
    assert "\x1b" not in said or case == "other-error"


def test_a_rank_that_waits_for_data_raises_what_the_other_said(ends):
    _, said = ends["waiting-1"]
    assert said.splitlines()[-1].endswith(f"StallError: rank 0 {MESSAGE}")
    assert said.count(MESSAGE) == 1  # not printed beside


@pytest.mark.deep
def test_an_error_of_the_collective_is_explained(ends):
    _, said = ends["explained-0"]
    assert said.splitlines()[-1].endswith(f"StallError: rank 1 {MESSAGE}")


def test_ranks_that_cannot_end_by_themselves_are_ended(ends):
    # Gloo's words, if the other rank ends first.
    killed, gone = (
        "its process is killed now",
        "a remote worker crashing",
    )
    said = [ends[name][1] for name in ("caught-0", "caught-1", "hanging-0")]
    assert all(killed in text or gone in text for text in said)
    assert any(killed in text for text in said)
    assert killed not in ends["explained-0"][1]


def test_other_errors_of_a_rank_reach_the_others_with_its_name(ends):
    assert f"rank 1 failed: ValueError: \\x1b[31m {MESSAGE}" in ends["other-error-0"][1]


def test_ranks_that_end_well_one_after_the_other_say_nothing(ends):
    for rank in range(2):
        code, said = ends[f"good-{rank}"]
        assert (code, said) == (0, "")


@contextmanager
def started(stall_after):
    dog = Watchdog(stall_after)
    dog.start()
    try:
        yield dog
    finally:
        dog.stop()


def test_without_other_ranks_a_long_wait_raises_and_nothing_is_ended(monkeypatch):
    clock = Clock(monkeypatch, watchdog)
    with started(5) as dog, dog.waiting(lambda waited: StallError(f"after {waited:.0f}")):
        clock.sleep(4)
        dog.check()
        clock.sleep(2)
        with pytest.raises(StallError, match="after 6"):
            dog.check()


@pytest.mark.parametrize(
    ("stall_after", "looks", "waited"),
    [
        (10, [5, 5], 10),
        (10, [5, 4.75], None),
        (10, [5, 5.25], None),  # this process was stopped: that time does not count
        (10, [5, 5.25, 5], 10),
        (4, [4], 4),
        (4, [5], 5),
        (4, [5.25], None),
        (20, [10, 10], 20),
        (20, [10.25, 10, 9.75], None),
    ],
)
def test_time_in_which_this_process_was_stopped_does_not_count(
    stall_after, looks, waited, monkeypatch
):
    clock = Clock(monkeypatch, watchdog)
    dog = Watchdog(stall_after)
    with dog.waiting(lambda waited: StallError(f"after {waited}")):
        for seconds in looks[:-1]:
            clock.sleep(seconds)
            dog.check()
        clock.sleep(looks[-1])
        if waited is None:
            dog.check()
        else:
            with pytest.raises(StallError, match=f"^after {float(waited)}$"):
                dog.check()


def test_what_is_done_meanwhile_begins_the_wait_again(monkeypatch):
    clock = Clock(monkeypatch, watchdog)
    dog = Watchdog(4)
    dog.restart_wait()
    with dog.waiting(lambda waited: StallError(f"after {waited}")):
        clock.sleep(3)
        dog.check()
        dog.restart_wait()
        clock.sleep(3)
        dog.check()
        clock.sleep(1)
        with pytest.raises(StallError, match=r"^after 4\.0$"):
            dog.check()


def test_time_between_two_waits_does_not_count(monkeypatch):
    clock = Clock(monkeypatch, watchdog)
    with started(5) as dog:
        with dog.waiting(lambda waited: StallError("first")):
            pass
        clock.sleep(10)
        with dog.waiting(lambda waited: StallError("second")):
            dog.check()
        dog.check()


def test_a_wait_that_never_checks_is_said_but_a_single_process_lives_on(monkeypatch, capsys):
    monkeypatch.setattr(watchdog, "_EVERY", 0.01)
    with (
        started(0.01) as dog,
        dog.waiting(lambda waited: StallError("rank 0: it hangs in its data")),
    ):
        dog._thread.join()
    assert "it hangs in its data" in capsys.readouterr().err


def test_it_ends_and_starts_again():
    dog = Watchdog(1)
    for _ in range(2):
        dog.start()
        first = dog._thread
        dog.start()
        assert dog._thread is first
        dog.stop()
        assert not first.is_alive()


def test_a_single_rank_has_nobody_to_tell():
    with started(1) as dog:
        dog.send_failure(StallError("nobody"))
        dog.check()
        assert dog.explain(RuntimeError("Connection closed by peer")) is None
    assert board.connect_board() is None


def test_a_checkpoint_that_is_being_written_is_seen():
    class Slow(io.BytesIO):
        seen = ()

        def write(self, data):
            self.seen = (*self.seen, watchdog._is_saving())
            return super().write(data)

    stream = Slow()
    torch.save({"a": torch.zeros(3)}, stream)
    assert stream.seen
    assert all(stream.seen)
    assert not watchdog._is_saving()


class Memory(board.Board):
    """A board between threads of this process."""

    def __init__(self, store, rank):
        super().__init__(store, rank, 2)


def test_the_first_message_stays_and_all_who_read_it_are_known():
    store = torch.distributed.HashStore()
    first, second = Memory(store, 0), Memory(store, 1)
    assert first.read() is None
    first.post("rank 0: \udcff".encode("utf-8", "replace").decode())
    assert not first.is_read_by_all()
    second.post("too late")
    assert second.read() == first.read() == "rank 0: ?"
    assert first.is_read_by_all()


def test_only_an_error_that_another_rank_may_have_caused_is_explained():
    store = torch.distributed.HashStore()
    Memory(store, 1).post("rank 1: no shard")
    dog = Watchdog(1)
    dog._board, dog._pid = Memory(store, 0), os.getpid()
    for own_end in (StallError("of this rank"), KeyboardInterrupt()):
        assert dog.explain(own_end) is None
    assert "rank 1: no shard" in str(dog.explain(RuntimeError("Connection closed by peer")))


def test_a_store_that_is_gone_is_left_alone():
    class Gone:
        def check(self, keys):
            raise RuntimeError("Broken pipe")

    dog = Watchdog(1)
    dog._board = board.Board(Gone(), 0, 2)
    assert dog.explain(RuntimeError("Connection closed by peer")) is None
    dog.send_failure(StallError("no one hears it"))
    dog.check()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_forked_child_keeps_out_of_it():
    store = torch.distributed.HashStore()
    dog = Watchdog(1)
    dog._board, dog._pid = Memory(store, 0), os.getpid() + 1  # as in a child
    dog.send_failure(StallError("a child's"))
    assert dog.explain(RuntimeError("x")) is None
    assert not store.check(["message"])
