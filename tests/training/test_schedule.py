"""Which shards the feed reads: those that OpenCLIP reads, lane by lane. Against OpenCLIP itself: test_openclip.py."""

import pytest

from wdsflow.readers import OpenClip33, Options
from wdsflow.readers.open_clip.versions import Buffers, epoch_order, worker_seed, worker_share
from wdsflow.training.feed.schedule import InOrder, OpenClip, Workload
from wdsflow.training.ranks import RankPlace

URLS = [f"{number}.tar" for number in range(9)]
PLACES = [(rank, lane) for rank in range(2) for lane in range(2)]


def read(rank: int, lane: int, seed: int, epoch: int) -> list[str]:
    schedule = OpenClip(URLS, Workload(RankPlace(rank, 2), workers=2, batch_size=1, samples=9, seed=seed))
    schedule.base_seed = 7
    return list(schedule.urls(epoch, lane))


@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize("epoch", [0, 1])
def test_shards_are_dealt_out_in_the_order_of_seed_and_epoch(seed, epoch):
    options = Options(seed=seed, epoch=epoch, workers=2, world_size=2)
    assert [read(rank, lane, seed, epoch) for rank, lane in PLACES] == OpenClip33().assigned(URLS, options)


@pytest.mark.parametrize("epoch", [0, 1])
def test_with_a_negative_seed_each_lane_shuffles_by_a_seed_of_its_own(epoch):
    for rank, lane in PLACES:
        mixed = epoch_order(URLS, worker_seed(7, epoch, rank, lane, 2), Buffers())
        assert read(rank, lane, -1, epoch) == list(worker_share(mixed, rank, 2, lane, 2))


@pytest.mark.parametrize(("samples", "batches"), [(1, 1), (8, 2), (9, 3), (0, 0)])
def test_evaluation_counts_its_last_smaller_batch(samples, batches):
    schedule = InOrder(URLS, lanes=2, batch_size=4, samples=samples)
    assert (schedule.num_batches, schedule.num_samples) == (batches, samples)
    assert [url for lane in range(2) for url in schedule.urls(0, lane)] == [*URLS[::2], *URLS[1::2]]
