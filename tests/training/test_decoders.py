"""Decoding in processes: the same batches as in threads, and nothing stays behind."""

import contextlib
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import weakref
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
import torch

pytest.importorskip("open_clip_train", reason="OpenCLIP is not installed")

from tests.processes import await_end, living_children
from tests.training.shards import arguments, samples, texts, write_shards, write_tar
from tests.training.test_loader import EVAL, digest, loader
from wdsflow import FeedOptions
from wdsflow.engines import site as cores
from wdsflow.memory.shared_budget import SharedBudget
from wdsflow.training import get_wds_dataset
from wdsflow.training.feed_options import DecoderError, SampleError
from wdsflow.training.pixels.image_work import ImageWork
from wdsflow.training.ranks import decoders_for, start_method
from wdsflow.training.stalls.loss_tally import FeedLoss
from wdsflow.training.workers.decoder import _Answer, read_answer
from wdsflow.training.workers.decoder_position import SharedPosition
from wdsflow.training.workers.slots import Slots
from wdsflow.training.workers.threads import DecodingThreads

pytestmark = pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="this system does not fork"
)


@pytest.mark.sample(1)
@pytest.mark.parametrize("train", [True, False], ids=["train", "eval"])
def test_processes_and_threads_make_the_same_batches(tmp_path, train):
    data = write_shards(tmp_path, [13, 9, 14])
    write_tar(tmp_path / "hurt.tar", [*samples(9, 6), ("x.jpg", b"<html>"), ("x.txt", b"page")])
    urls = f"{data}::{tmp_path}/hurt.tar"
    found = []
    for where, count in (("threads", 1), ("processes", 1), ("processes", 3), ("auto", 2)):
        loading = loader(
            urls,
            train=train,
            preprocess=EVAL,
            decode_in=where,
            decoders=count,
            **({} if train else {"workers": 1}),
        )
        found.append([])
        for batch in loading:
            found[-1].append(digest(batch))
            # A process that ends silently, as an exception
            # in a training does, waits for none of them.
            assert all(child.daemon for child in multiprocessing.active_children())
        assert loading.tally.losses[("decode", "not-an-image")].count >= 1
        loading.close()
    assert found[0] == found[1] == found[2] == found[3]


@pytest.mark.deep
def test_processes_and_their_memory_end_with_the_pass(tmp_path):
    loading = loader(write_shards(tmp_path, [30, 30]), decode_in="processes", decoders=2)
    before = len(living_children())
    whole = [digest(batch) for batch in loading]
    assert len(living_children()) == before
    for _ in range(3):  # passes that are given up
        loading.set_epoch(0)
        running = iter(loading)
        first = digest(next(running))
        assert first == whole[0]
        assert len(living_children()) == before + 2
        memory = weakref.ref(loading._feed.run.decoders._slots)
        running.close()
        assert memory() is None
        assert len(living_children()) == before
    loading.close()


def locked(text):
    return [threading.Lock()]


def test_what_cannot_be_sent_from_a_decoding_process_is_said(tmp_path):
    args = arguments(
        train_data=write_shards(tmp_path, [40]), train_num_samples=40, workers=1, batch_size=4
    )
    options = FeedOptions(status_every=0.0, decode_in="processes", decoders=1)
    loading = get_wds_dataset(args, EVAL, True, tokenizer=locked, options=options).dataloader
    with pytest.raises(
        SampleError, match=r"cannot be sent to the training process: cannot pickle '_thread.lock'"
    ):
        next(iter(loading))
    loading.close()


_ORPHANS = """
import sys, time
import torch
from tests.training.test_loader import loader
running = iter(loader(sys.argv[1], decode_in="processes", decoders=2))
next(running)
print("begun", flush=True)
time.sleep(60)
"""


@pytest.mark.deep
@pytest.mark.parametrize(
    "how", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.deep)]
)
def test_no_decoding_process_outlives_its_parent(tmp_path, how):
    data = write_shards(tmp_path, [40, 40])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, "-c", _ORPHANS, data],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"begun\n"
    children = psutil.Process(process.pid).children()
    assert len(children) == 2
    process.send_signal(how)
    process.wait()
    process.stdout.close()
    await_end(*children)


def test_a_daemonic_process_decodes_in_threads_unless_told_otherwise(monkeypatch):
    assert start_method("processes", recognised=True) == "fork"
    assert start_method("threads", recognised=True) is None
    assert start_method("threads", recognised=False) == multiprocessing.get_start_method()
    monkeypatch.setattr(multiprocessing.process.BaseProcess, "daemon", True)
    assert start_method("auto", recognised=True) is None
    for requested, recognised in (("processes", True), ("auto", False)):
        with pytest.raises(
            ValueError,
            match=r'this is a daemonic process; (decode_in="threads"|iterate in the main)',
        ):
            start_method(requested, recognised=recognised)
    with pytest.raises(ValueError, match="choose one of auto, processes, threads"):
        FeedOptions(decode_in="gpu")


@pytest.mark.parametrize(
    ("granted", "count"), [("250000 100000\n", 2), ("50000 100000\n", 1), ("max 100000\n", 6)]
)
def test_there_are_no_more_decoders_than_the_container_grants_processors(
    tmp_path, monkeypatch, granted, count
):
    limit = tmp_path / "cpu.max"
    limit.write_text(granted)
    monkeypatch.setattr(cores, "_GRANTED", limit)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)), raising=False)
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    assert decoders_for(None) == count
    assert decoders_for(7) == 7


def test_with_other_decoders_the_same_images_are_refused_after_a_resume(tmp_path):
    data = write_shards(tmp_path, [40, 40])
    first, second = (loader(data, memory="96MiB", decoders=count) for count in (1, 9))
    assert first._feed.largest > second._feed.largest
    second.load_state_dict(first.state_dict())
    assert (
        second._recipe.sources[0].images._decode.budget
        == first._recipe.sources[0].images._decode.budget
        == first._feed.largest
    )


@pytest.mark.parametrize("tensor", [False, True], ids=["array", "tensor"])
def test_a_slot_is_free_again_when_nobody_looks_at_it(tensor):
    slots = Slots(2, 4 * 3 * 4 * 4)
    first, second, none = slots.take(3)
    assert (first, second, none) == (0, 1, -1)
    image = np.full((3, 4, 4), 7, np.float32).swapaxes(1, 2)
    image[1, 2, 3] = 1
    image = torch.from_numpy(image) if tensor else image
    held = slots.write(1, image)
    child = os.fork()
    if not child:
        slots.write(1, image + 1)
        os._exit(0)
    os.waitpid(child, 0)
    seen = slots.lend(1, held)
    assert type(seen) is type(image)
    assert (seen == image + 1).all()
    assert slots.take(1) == [-1]
    slots.give_back(first)
    del seen
    assert slots.take(3) == [0, 1, -1]


@pytest.mark.parametrize("error", [None, ValueError("in the work")], ids=["results", "error"])
def test_all_slots_are_free_again_when_the_results_of_a_chunk_are_gone(error):
    """Of images in slots, images that did not fit, lost samples, and chunks whose work failed."""
    slots = Slots(4, 64)
    for _ in range(3):
        tasks = [SimpleNamespace(slot=slot, result=None) for slot in slots.take(5)]
        images = [
            slots.write(tasks[0].slot, np.zeros(4)),
            slots.write(tasks[1].slot, np.zeros(99)),
            np.ones(4),
        ]
        lost = {number: FeedLoss("decode", "truncated", "key", "0.tar") for number in (2, 3)}
        answer = _Answer(lost, images, ["a", "b", "c"], [(), (), ()], error)
        with pytest.raises(ValueError, match="in the work") if error else contextlib.nullcontext():
            read_answer(pickle.dumps(answer), tasks, slots)
        del tasks
    assert sorted(slots.take(4)) == [0, 1, 2, 3]


def test_the_stack_of_a_process_is_not_asked_for_once_its_files_are_closed():
    """The number of a closed file may be that of another file."""
    position = SharedPosition()
    position.close()
    assert position.stack(os.getpid()) == []


@pytest.mark.parametrize(
    "image", ["text", None, torch.zeros(200), np.array([{}]), torch.zeros(3, dtype=torch.bfloat16)]
)
def test_what_does_not_fit_into_a_slot_is_sent_as_it_is(image):
    assert Slots(1, 64).write(0, image) is image


def _hold(budget, size, started, seconds):
    with budget.hold(size):
        started.put((size, time.monotonic()))
        time.sleep(seconds)
        started.put((-size, time.monotonic()))


def test_processes_share_a_budget():
    budget = SharedBudget(1 << 20, 3)
    context = multiprocessing.get_context("fork")
    heard = context.SimpleQueue()
    sizes = [600_000, 500_000, 5 << 20, 400_000, 100]
    children = [context.Process(target=_hold, args=(budget, size, heard, 0.2)) for size in sizes]
    for child in children:
        child.start()
    events = sorted((heard.get() for _ in range(2 * len(sizes))), key=lambda event: event[1])
    for child in children:
        child.join()
        assert child.exitcode == 0
    held: list[int] = []
    for size, _ in events:
        held.append(size) if size > 0 else held.remove(-size)
        large = [each for each in held if each > 100]
        assert sum(large) <= 1 << 20 or len(large) == 1  # beyond the whole budget: alone
    assert budget.used == 0


@pytest.mark.parametrize("where", ["processes", "threads"])
def test_all_decoders_of_a_feed_share_one_budget(tmp_path, monkeypatch, where):
    alone, run = tmp_path / "alone", ImageWork.run

    def one_at_a_time(self, data, seed, hold=None):
        if hold is None:  # of none of the decoders
            return run(self, data, seed)
        with hold(1 << 50):  # more than there is: nobody else may hold anything
            os.close(os.open(alone, os.O_CREAT | os.O_EXCL))
            time.sleep(0.01)
            alone.unlink()
        return run(self, data, seed)

    monkeypatch.setattr(ImageWork, "run", one_at_a_time)
    loading = loader(write_shards(tmp_path, [12, 12]), preprocess=EVAL, decode_in=where, decoders=3)
    assert sum(len(texts(batch)) for batch in loading) == 64
    loading.close()


def test_what_a_killed_decoder_held_of_the_budget_is_free_in_the_next_pass(tmp_path, monkeypatch):
    first, run = tmp_path / "first", ImageWork.run

    def killed_once(self, data, seed, hold=None):
        with contextlib.nullcontext() if hold is None else hold(1 << 50):
            if hold is not None and not first.exists():
                first.touch()
                os.kill(os.getpid(), signal.SIGKILL)
        return run(self, data, seed)

    monkeypatch.setattr(ImageWork, "run", killed_once)
    loading = loader(
        write_shards(tmp_path, [12, 12]), preprocess=EVAL, decode_in="processes", decoders=2
    )
    with pytest.raises(DecoderError, match="was ended by SIGKILL"):
        list(loading)
    assert sum(len(texts(batch)) for batch in loading) == 64
    loading.close()


def test_threads_that_have_begun_end_where_the_system_has_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begin = threading.Thread.start
    begun: list[threading.Thread] = []

    def start(thread: threading.Thread) -> None:
        if len(begun) == 2:
            raise RuntimeError("can't start new thread")
        begin(thread)
        begun.append(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(RuntimeError, match="new thread"):
        DecodingThreads(4, 8, SimpleNamespace(close=lambda: None))  # type: ignore[arg-type]
    assert [thread.is_alive() for thread in begun] == [False, False]
