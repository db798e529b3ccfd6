"""The feed reads the shards that OpenCLIP reads, worker by worker.

test_openclip.py compares it with OpenCLIP itself.
"""

from itertools import islice

import pytest

from wdsflow.readers import OpenClip33, Options
from wdsflow.readers.open_clip.versions import Buffers, epoch_order, worker_seed, worker_share
from wdsflow.training.orders.openclip import EvaluationOrder, OpenClipOrder, Workload
from wdsflow.training.orders.order import EpochPosition
from wdsflow.training.ranks import JobRank
from wdsflow.training.sample_tasks import StreamKey

URLS = [f"{number}.tar" for number in range(9)]
PLACES = [(rank, worker) for rank in range(2) for worker in range(2)]


def read(rank: int, worker: int, seed: int, epoch: int) -> list[str]:
    order = OpenClipOrder(
        URLS, Workload(JobRank(rank, 2), workers=2, batch_size=1, samples=9, seed=seed)
    )
    order.base_seed = 7
    return list(order.shards_of(epoch, StreamKey(0, 0, worker)))


@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize("epoch", [0, 1])
def test_shards_are_dealt_out_in_the_order_of_seed_and_epoch(seed, epoch):
    options = Options(seed=seed, epoch=epoch, workers=2, world_size=2)
    assert [
        read(rank, worker, seed, epoch) for rank, worker in PLACES
    ] == OpenClip33().items_by_worker(URLS, options)


@pytest.mark.parametrize("epoch", [0, 1])
def test_with_a_negative_seed_each_worker_shuffles_by_a_seed_of_its_own(epoch):
    for rank, worker in PLACES:
        mixed = epoch_order(URLS, worker_seed(7, epoch, rank, worker, 2), Buffers())
        assert read(rank, worker, -1, epoch) == list(worker_share(mixed, rank, 2, worker, 2))


@pytest.mark.parametrize(("samples", "batches"), [(1, 1), (8, 2), (9, 3), (0, 0)])
def test_evaluation_counts_its_last_smaller_batch(samples, batches):
    order = EvaluationOrder(URLS, workers=2, batch_size=4, samples=samples)
    assert (order.num_batches, order.num_samples) == (batches, samples)
    assert [url for stream in order.first_round(0) for url in order.shards_of(0, stream)] == [
        *URLS[::2],
        *URLS[1::2],
    ]


def streams(steps):
    return [run.stream.number for step in steps for run in step.runs]


def test_workers_give_full_batches_in_turn_until_the_epoch_ends():
    order = OpenClipOrder(
        URLS, Workload(JobRank(0, 2), workers=3, batch_size=4, samples=33, seed=0)
    )
    assert order.num_batches == 6
    assert streams(order.steps(0, EpochPosition())) == [0, 1, 2, 0, 1, 2]
    assert streams(order.steps(0, EpochPosition(batch=4))) == [1, 2]
    assert list(order.steps(0, EpochPosition(batch=6))) == []
    assert {step.size for step in order.steps(0, EpochPosition())} == {4}


def test_evaluation_plans_without_end_because_only_the_shards_know_it():
    order = EvaluationOrder(URLS, workers=2, batch_size=4, samples=1)
    assert streams(islice(order.steps(0, EpochPosition(batch=1)), 5)) == [1, 0, 1, 0, 1]
