"""Which shards the feed reads: those that OpenCLIP reads, worker by worker. Against OpenCLIP itself: test_openclip.py."""

import pytest

from wdsflow.readers import OpenClip33, Options
from wdsflow.readers.open_clip.versions import Buffers, epoch_order, worker_seed, worker_share
from wdsflow.training.orders.openclip import EvaluationOrder, OpenClipOrder, Workload
from wdsflow.training.ranks import RankPlace
from wdsflow.training.sample_tasks import StreamKey

URLS = [f"{number}.tar" for number in range(9)]
PLACES = [(rank, worker) for rank in range(2) for worker in range(2)]


def read(rank: int, worker: int, seed: int, epoch: int) -> list[str]:
    order = OpenClipOrder(URLS, Workload(RankPlace(rank, 2), workers=2, batch_size=1, samples=9, seed=seed))
    order.base_seed = 7
    return list(order.shards_of(epoch, StreamKey(0, 0, worker)))


@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize("epoch", [0, 1])
def test_shards_are_dealt_out_in_the_order_of_seed_and_epoch(seed, epoch):
    options = Options(seed=seed, epoch=epoch, workers=2, world_size=2)
    assert [read(rank, worker, seed, epoch) for rank, worker in PLACES] == OpenClip33().assigned(URLS, options)


@pytest.mark.parametrize("epoch", [0, 1])
def test_with_a_negative_seed_each_worker_shuffles_by_a_seed_of_its_own(epoch):
    for rank, worker in PLACES:
        mixed = epoch_order(URLS, worker_seed(7, epoch, rank, worker, 2), Buffers())
        assert read(rank, worker, -1, epoch) == list(worker_share(mixed, rank, 2, worker, 2))


@pytest.mark.parametrize(("samples", "batches"), [(1, 1), (8, 2), (9, 3), (0, 0)])
def test_evaluation_counts_its_last_smaller_batch(samples, batches):
    order = EvaluationOrder(URLS, workers=2, batch_size=4, samples=samples)
    assert (order.num_batches, order.num_samples) == (batches, samples)
    assert [url for stream in order.first_round(0) for url in order.shards_of(0, stream)] == [*URLS[::2], *URLS[1::2]]
