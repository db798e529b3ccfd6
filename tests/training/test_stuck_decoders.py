"""Decoders that hang because they were forked at a bad moment do not stall training."""

import gc
import logging
import multiprocessing
import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

pytest.importorskip("open_clip_train", reason="OpenCLIP is not installed")

from tests.processes import living_children
from tests.training.shards import jpeg, write_shards
from tests.training.test_faults import NAMED, Transform, end_by, ended, run, shards
from tests.training.test_loader import TRAIN, digest, loader
from wdsflow.training.feed_options import DecoderError
from wdsflow.training.orders.order import EpochPosition
from wdsflow.training.pixels.image_work import ImageWork
from wdsflow.training.workers import decoder, decoder_process, processes

pytestmark = pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="does not fork"
)


@pytest.mark.sample(1)
@pytest.mark.parametrize("preprocess", [TRAIN, Transform(lambda: None)], ids=["known", "custom"])
def test_decoders_that_hang_before_their_first_sample_are_started_again(
    tmp_path, monkeypatch, caplog, preprocess
):
    """They need a lock that another thread of the parent held during the fork."""
    data = write_shards(tmp_path, [12, 12])
    expected = [
        digest(batch)
        for batch in loader(data, preprocess=preprocess, decode_in="processes", decoders=2)
    ]
    lock, begin = threading.Lock(), decoder._imitate_dataloader_worker

    def locked(seat):
        with lock:
            begin(seat)

    monkeypatch.setattr(decoder, "_imitate_dataloader_worker", locked)
    monkeypatch.setattr(processes, "DECODER_BEGINS", 1.0)
    before = living_children()
    loading = loader(data, preprocess=preprocess, decode_in="processes", decoders=2)
    with lock:
        running = iter(loading)
    with caplog.at_level(logging.WARNING):
        assert [digest(batch) for batch in running] == expected
    loading.close()
    told = [
        record.getMessage() for record in caplog.records if "started again" in record.getMessage()
    ]
    assert sorted(line.partition(" (")[0] for line in told) == [
        "feed: decoder 0",
        "feed: decoder 1",
    ]
    assert living_children(before) == []


def test_a_decoder_that_ended_is_noticed_though_another_process_keeps_its_pipe_open(
    tmp_path, monkeypatch
):
    """Another thread of the program may fork a process while decoders start.

    That process inherits the pipe and keeps it open.
    """
    data, kept, widen = shards(tmp_path), [], decoder_process._enlarge_pipe

    def keep(end):
        widen(end)
        kept.append(os.dup(end.fileno()))

    monkeypatch.setattr(decoder_process, "_enlarge_pipe", keep)
    with ended(DecoderError, f"(?s)was ended by SIGKILL, {NAMED}"):
        run(loader(data, preprocess=Transform(lambda: end_by(signal.SIGKILL))))
    for end in kept:
        os.close(end)


def test_forked_decoders_collect_no_garbage_of_their_parent_and_import_nothing(
    tmp_path, monkeypatch
):
    """A finalizer or an import could hang in a forked decoder.

    It would wait for a lock that a thread of the parent held during the fork.
    """
    imported, collects, begin = (
        [],
        multiprocessing.get_context("fork").SimpleQueue(),
        decoder._imitate_dataloader_worker,
    )
    bootstrap = multiprocessing.process.BaseProcess._bootstrap  # type: ignore[attr-defined]

    def forked(process, *words, **named):
        collects.put(gc.isenabled())
        return bootstrap(process, *words, **named)

    def begins(seat):
        collects.put(gc.isenabled())
        begin(seat)

    monkeypatch.setattr(multiprocessing.process.BaseProcess, "_bootstrap", forked)
    monkeypatch.setattr(decoder, "_imitate_dataloader_worker", begins)
    monkeypatch.setattr(ImageWork, "import_all", lambda _: imported.append(True))
    loading = loader(write_shards(tmp_path, [8]), workers=1, decoders=1, decode_in="processes")
    run(loading)
    assert [collects.get(), collects.get(), gc.isenabled()] == [False, True, True]
    assert imported == [True]


@pytest.mark.usefixtures("new_interpreters")
def test_all_that_decoding_needs_is_imported_at_once(tmp_path):
    (tmp_path / "a.jpg").write_bytes(jpeg(3, (640, 480)))
    program = (
        "import sys; from wdsflow.training.pixels.image_work import image_work; work = image_work(repr)\n"
        "work.import_all(); before = set(sys.modules)\n"
        "work._decode.decode(open(sys.argv[1], 'rb').read()); print(*sorted(set(sys.modules) - before))"
    )
    words = [sys.executable, "-c", program, str(tmp_path / "a.jpg")]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_an_abandoned_iterator_may_be_closed_in_the_midst_of_any_call(tmp_path):
    """A finalizer must not wait for a lock that its own thread holds.

    The garbage collector may run it at any time.

    What the modules queue and threading write in Python takes such locks.
    """
    called, main = set(), threading.get_ident()

    def note(frame, event, _):
        here = threading.get_ident() == main
        # A future waits by threading's.
        files = (queue.__file__, threading.__file__) if here else (queue.__file__,)
        if event == "call" and frame.f_code.co_filename in files:
            called.add(frame.f_code.co_name)

    loading = loader(write_shards(tmp_path, [40, 40]), decode_in="threads", decoders=1)
    made = loading._feed.start(0, EpochPosition())
    made.close()
    threading.setprofile(note)
    try:
        made = loading._feed.start(0, EpochPosition())
    finally:
        threading.setprofile(None)
    sys.setprofile(note)
    try:
        given = [made.next(lambda waited: None) for _ in range(4)]
        made._thread = threading.current_thread()  # it is not joined where it closes itself
        made.close()
    finally:
        sys.setprofile(None)
    loading.close()
    assert len(given) == 4
    assert called <= {"current_thread"}  # which takes none


def test_all_decoders_are_killed_at_once(tmp_path: Path) -> None:
    before = living_children()
    data = write_shards(tmp_path, [40, 40])
    loading = loader(data, workers=1, decoders=2, decode_in="processes")
    run_of_epoch = loading._feed.start(0, EpochPosition())
    run_of_epoch.next(lambda waited: None)
    decoders = living_children(before)

    run_of_epoch.decoders.kill()

    _, alive = psutil.wait_procs(decoders, timeout=10)
    assert (len(decoders), alive) == (2, [])
    run_of_epoch.close()
    loading.close()
