"""What is in flight: open files, memory, and passes over one loader that meet each other."""

import multiprocessing
import os
import pickle
import queue
import threading
import time
from contextlib import suppress
from itertools import islice

import pytest

pytest.importorskip("open_clip_train", reason="OpenCLIP is not installed")

import numpy as np
import torch
from torchvision.transforms import Compose, RandomHorizontalFlip, RandomResizedCrop, ToTensor

from tests.training.shards import samples, texts, write_shards, write_tar
from tests.training.test_loader import loader
from wdsflow.training import StallError
from wdsflow.training.feed.epoch.assembler import stack
from wdsflow.training.feed.memory_shares import divide_memory
from wdsflow.training.orders.order import EpochPosition
from wdsflow.training.pixels.image_work import image_work
from wdsflow.training.workers import decoder
from wdsflow.training.workers.slots import pickle_value, stack_rows

DESCRIPTORS = "/proc/self/fd"


@pytest.mark.deep
@pytest.mark.skipif(not os.path.isdir(DESCRIPTORS), reason="open files cannot be counted here")
def test_epochs_leave_no_shard_open(tmp_path):
    loading = loader(write_shards(tmp_path, [3] * 30))
    for _ in loading:
        pass
    before = len(os.listdir(DESCRIPTORS))
    for _ in range(3):
        for _ in loading:
            pass
    assert len(os.listdir(DESCRIPTORS)) <= before + 2
    loading.close()


def test_a_pass_that_another_one_has_ended_says_so(tmp_path):
    loading = loader(write_shards(tmp_path, [40, 40]), stall_after=600.0)
    first = iter(loading)
    next(first)
    second = iter(loading)
    assert next(second)
    with pytest.raises(RuntimeError, match="was ended: by another pass"):
        next(first)
    loading.close()


@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="this system does not fork"
)
def test_a_decoder_that_hangs_before_its_first_sample_is_named_with_where_it_hangs(
    tmp_path, monkeypatch
):
    def hangs(_seat):
        time.sleep(3600)

    monkeypatch.setattr(decoder, "_imitate_dataloader_worker", hangs)
    loading = loader(
        write_shards(tmp_path, [20, 20]), decode_in="processes", decoders=1, stall_after=1.0
    )
    with pytest.raises(
        StallError,
        match=r"decoder 0 \(process \d+\) has been between two samples for .* in hangs \(",
    ):
        next(iter(loading))
    loading.close()


@pytest.mark.sample(1)
@pytest.mark.parametrize("schedule", [{}, {"schedule": "balanced", "batch_size": 3}])
def test_threads_and_memory_leave_the_batches_of_streams_as_they_were(tmp_path, schedule):
    def big(shard):
        return [
            (name, data + b"\0" * 20_000 * name.endswith("jpg"))
            for name, data in samples(shard, 150)
        ]

    for shard in range(2):
        write_tar(tmp_path / f"{shard}.tar", big(shard))
    data = f"pipe:cat {tmp_path}/{{0..1}}.tar"
    runs = []
    for decoders in (1, 4):
        loading = loader(data, memory="76MiB", decoders=decoders, **schedule)
        runs.append([texts(batch) for batch in loading])
        loading.close()
    assert runs[0] == runs[1]
    begun = loader(data, memory="76MiB", **schedule)
    running = iter(begun)
    first = [texts(next(running))]
    state = begun.state_dict()
    begun.close()
    resumed = loader(data, memory="512MiB", **schedule)
    resumed.load_state_dict(state)
    assert first + [texts(batch) for batch in resumed] == runs[0]
    resumed.close()


def test_samples_of_streams_that_wait_for_their_batch_hold_no_content(tmp_path):
    padded = [
        (name, data + b"\0" * 1_000_000 * name.endswith("jpg")) for name, data in samples(0, 40)
    ]
    write_tar(tmp_path / "0.tar", padded)
    more = {"arguments_more": {"dataset_resampled": True}}
    loading = loader(f"pipe:cat {tmp_path}/0.tar", workers=1, batch_size=60, memory="96MiB", **more)
    most = 0
    run = loading._feed.start(0, EpochPosition())
    while (ready := run.next(lambda waited: None)) is not None:
        planner = run.planner
        most = max(most, planner._held)
        waiting = [task.ref.held for step in planner._planned for task in step.valid()]
        assert not any(waiting)
        del ready
    assert most <= loading._feed._shares.raw + 1_100_000
    loading.close()


def test_the_share_of_shuffling_is_the_same_for_any_number_of_threads():
    def share(decoders, memory):
        return divide_memory(
            memory, batch=64, sample=600_000, made=150_000, decoders=decoders, chunk=8, streams=3
        )

    for memory in (None, 1 << 30):
        assert len({share(decoders, memory).shuffle for decoders in (1, 2, 7, 16)}) == 1
    given = share(4, 1 << 30)
    used = (
        3 * 64 * 600_000
        + (64 + given.ahead) * 150_000
        + given.decode
        + 3 * given.shuffle
        + given.raw
    )
    assert used <= 1 << 30


def test_a_state_of_resampled_shards_is_refused_by_a_loader_of_plain_ones(tmp_path):
    data = write_shards(tmp_path, [30, 30])
    state = loader(data, arguments_more={"dataset_resampled": True}).state_dict()
    with pytest.raises(ValueError, match="schedule: 'resampled' then, 'openclip' now"):
        loader(data).load_state_dict(state)


def test_what_is_packed_comes_out_as_it_was():
    array, crops = (
        np.arange(6).reshape(2, 3),
        (torch.ones(3, 2), torch.zeros(2, dtype=torch.bfloat16)),
    )
    found = pickle.loads(pickle_value({"array": array, "crops": crops}))
    assert np.array_equal(found["array"], array)
    assert all(torch.equal(one, other) for one, other in zip(found["crops"], crops, strict=True))
    found["crops"][0][0, 0] = 5  # a tensor that may be written


@pytest.mark.parametrize("rows", [[torch.tensor([1, 2])] * 2, [np.array([1, 2])] * 2])
def test_rows_of_numbers_are_joined_and_anything_else_is_not(rows):
    assert stack_rows(rows).tolist() == [[1, 2], [1, 2]]
    for others in (
        [],
        ["a", "b"],
        [torch.zeros(2), torch.zeros(3)],
        [torch.zeros(2), np.zeros(2)],
        [torch.tensor(1)],
    ):
        assert stack_rows(others) is None


@pytest.mark.deep
@pytest.mark.skipif(not os.path.isdir(DESCRIPTORS), reason="open files cannot be counted here")
def test_samples_from_worker_processes_hold_no_open_files(tmp_path):
    flips = Compose([RandomResizedCrop(32), RandomHorizontalFlip(), ToTensor()])
    data, more = write_shards(tmp_path, [20, 20]), {"dataset_resampled": True}
    loading = loader(data, workers=1, batch_size=400, preprocess=flips, arguments_more=more)
    before, most = len(os.listdir(DESCRIPTORS)), 0
    run = loading._feed.start(0, EpochPosition())
    planner = None
    while (ready := _ready(run)) is None:
        planner = run.planner
        waiting = sum(len(step.valid()) for step in planner._planned.copy()) if planner else 0
        if waiting > 100:
            most = max(most, len(os.listdir(DESCRIPTORS)))
    assert ready.batch[0].shape == (400, 3, 32, 32)
    assert 0 < most < before + 60
    run.close()
    loading.close()


def _ready(run):
    with suppress(queue.Empty):
        return run._ready.get(timeout=0.005)
    return None


def test_arrays_become_tensors_as_with_openclip():
    found = stack([np.array([1, 2]), np.array([3, 4])])
    assert torch.equal(found, torch.tensor([[1, 2], [3, 4]]))
    images = image_work(np.asarray).collate([np.zeros((2, 2, 3), np.uint8)] * 2)
    assert images.shape == (2, 2, 2, 3)
    assert stack(["a", "b"]) == ["a", "b"]


def test_streams_of_several_workers_are_read_at_once(tmp_path):
    for number in range(4):
        os.mkfifo(tmp_path / f"{number}")
    names = [tmp_path / f"{number}" for number in range(4)]
    write_tar(tmp_path / "all.tar", samples(0, 8))
    data = (tmp_path / "all.tar").read_bytes()
    opened = threading.Barrier(4)

    def feed(path):
        with open(path, "wb") as pipe:  # comes when somebody reads the other end
            opened.wait()  # and goes on when all four are being read
            pipe.write(data)

    writers = [threading.Thread(target=feed, args=(path,), daemon=True) for path in names]
    for writer in writers:
        writer.start()
    loading = loader([f"pipe:cat {path}" for path in names], workers=4, stall_after=600)
    assert sum(len(texts(batch)) for batch in islice(loading, 4)) == 16
    loading.close()
