"""The shards that an order foresees for a cache are those that a rank opens.

They come in about the same order. Also tests how many downloads that saves.
"""

import random
from collections.abc import Callable

import numpy as np
import pytest

from tests.shards.cache.minimum import downloads_by_recency, fewest_downloads
from wdsflow.shards.cache.policy import NEVER, CachedShard, next_uses, victims
from wdsflow.shards.shard import Shard
from wdsflow.training.orders.balanced import BalancedOrder
from wdsflow.training.orders.mixed_streams import MixedSource
from wdsflow.training.orders.openclip import OpenClipOrder, ResampledOrder, Workload
from wdsflow.training.orders.order import EpochPosition, Order
from wdsflow.training.ranks import JobRank


def shards(count: int, name: str = "a") -> list[Shard]:
    return [Shard.url(f"s3://bucket/{name}{number:04d}.tar") for number in range(count)]


def read_by(order: BalancedOrder, epoch: int) -> list[Shard]:
    """Return the shards that the batches of a rank take samples from, by the first batch."""
    opened: dict[Shard, None] = {}
    for step in order.steps(epoch, EpochPosition()):
        for run in step.runs:
            for _, _, shard in order.mixed.shards_of_run(epoch, run):
                opened.setdefault(shard)
    return list(opened)


@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_a_balanced_order_foresees_what_its_batches_take(ranks):
    sources = [
        MixedSource(tuple((shard, 400) for shard in shards(60))),
        MixedSource(tuple((shard, 300) for shard in shards(20, "b")), 0.5),
    ]
    total: set[Shard] = set()
    for rank in range(ranks):
        order = BalancedOrder(sources, job_rank=JobRank(rank, ranks), batch_size=256, seed=1)
        for epoch in (0, 1):
            foreseen, real = order.opened_shards(epoch), read_by(order, epoch)
            # At its borders a rank takes some samples of streams that are mostly of its neighbours.
            missed = set(real) ^ set(foreseen)
            assert len(missed) <= (0 if ranks == 1 else 0.2 * len(real))
            # The first batch opens all streams at once.
            shifts = [
                abs(real.index(shard) - number)
                for number, shard in enumerate(dict.fromkeys(foreseen))
                if shard in real
            ]
            assert np.mean(shifts) <= 0.15 * len(real)
        total |= set(order.opened_shards(0))
    assert len(total) == 80


def test_the_shards_of_a_single_stream_are_foreseen_in_its_order():
    source = MixedSource(tuple((shard, 400) for shard in shards(60)))
    rank = JobRank(0, 1)
    order = BalancedOrder([source], job_rank=rank, batch_size=256, seed=1, most_streams=1)
    assert order.opened_shards(0) == read_by(order, 0)


def test_orders_of_openclip_foresee_what_their_workers_read():
    urls = shards(20)
    work = Workload(JobRank(1, 2), workers=2, batch_size=4, samples=800, seed=0)
    strict = OpenClipOrder(urls, work)
    foreseen = strict.opened_shards(3)
    streams = [list(strict.shards_of(3, key)) for key in strict.first_round(3)]
    assert foreseen == [shard for pair in zip(*streams, strict=True) for shard in pair]
    drawn = ResampledOrder(urls, None, work)
    assert len(drawn.opened_shards(3)) == 10
    assert drawn.opened_shards(3)[0] == next(drawn.shards_of(3, next(drawn.first_round(3))))


def node_uses(orders: list[Order], epochs: int) -> list[list[Shard]]:
    """Return what a node opens in each epoch, its ranks side by side."""
    uses = []
    for epoch in range(epochs):
        of_ranks = [order.opened_shards(epoch) for order in orders]
        longest = max(map(len, of_ranks))
        uses.append(
            [
                of_rank[turn]
                for turn in range(longest)
                for of_rank in of_ranks
                if turn < len(of_rank)
            ]
        )
    return uses


def downloads(epochs: list[list[Shard]], room: int, foreseen: int) -> int:
    """Return what a cache downloads that foresees so many epochs."""
    numbers = {name: number for number, name in enumerate(sorted({n for e in epochs for n in e}))}
    kept: set[int] = set()
    count = 0
    for epoch, names in enumerate(epochs):
        plan = [numbers[name] for later in epochs[epoch : epoch + foreseen] for name in later]
        uses, done = np.array(plan, np.uint64), np.zeros(len(plan), bool)
        for position, shard in enumerate(plan[: len(names)]):
            done[position] = True
            if shard in kept:
                continue
            count += 1
            needed = next_uses(uses, done)
            stored = [CachedShard(str(one), 1, needed.get(one, NEVER)) for one in kept]
            new = CachedShard(str(shard), 1, needed.get(shard, NEVER))
            chosen = victims(stored, new, len(kept) + 1 - room)
            if chosen is not None:
                kept = kept - {int(one.name) for one in chosen} | {shard}
    return count


@pytest.mark.parametrize(
    ("shard_count", "nodes", "epochs"),
    [(60, 4, 8), (1000, 64, 40)],
)
@pytest.mark.parametrize("share", [0.5, 1.0])
def test_a_node_of_many_downloads_about_the_least_that_is_possible(
    shard_count, nodes, epochs, share
):
    ranks = 8 if nodes == 64 else 2
    orders = [
        OpenClipOrder(
            shards(shard_count),
            Workload(JobRank(rank, nodes * ranks), workers=1, batch_size=4, samples=8000, seed=0),
        )
        for rank in range(ranks)
    ]
    uses = node_uses(orders, epochs)
    room = round(share * np.mean([len(of_epoch) for of_epoch in uses]))
    flat = [name for of_epoch in uses for name in of_epoch]
    best = sum(fewest_downloads(flat, room))
    ours = downloads(uses, room, foreseen=min(16, 2 * nodes))
    recency = sum(downloads_by_recency(flat, room))
    assert best <= ours <= 1.02 * best + 1
    assert ours <= recency


def newly_opened(orders_of: Callable[[int], list[BalancedOrder]], machines: int) -> int:
    """Return how many shards all machines open that they did not open in the epoch before."""
    count = 0
    for machine in range(machines):
        orders = orders_of(machine)
        before, later = (
            {shard for order in orders for shard in read_by(order, epoch)} for epoch in (3, 4)
        )
        count += len(later - before)
    return count


# At the border of two machines both take samples of a stream if shards differ in size, or in the
# last steps; they are in other shards in each epoch.
@pytest.mark.parametrize(
    ("machines", "differing", "most"), [(2, 0, 0.01), (16, 0, 0.1), (2, 20, 0.1), (16, 20, 0.35)]
)
def test_a_balanced_order_leaves_shards_with_their_machine(machines, differing, most):
    ranks = 8
    draw = random.Random(1)
    counted = [(shard, 200 + draw.randint(-differing, differing)) for shard in shards(336)]
    source = MixedSource(tuple(counted))

    def orders_of(machine: int) -> list[BalancedOrder]:
        job_ranks = [JobRank(ranks * machine + rank, ranks * machines) for rank in range(ranks)]
        return [
            BalancedOrder([source], job_rank=job_rank, batch_size=64, seed=2)
            for job_rank in job_ranks
        ]

    assert newly_opened(orders_of, machines) <= most * 336


def test_openclip_gives_machines_other_shards_in_each_epoch():
    machines, ranks = 8, 8

    def orders_of(machine: int) -> list[Order]:
        job_ranks = [JobRank(ranks * machine + rank, ranks * machines) for rank in range(ranks)]
        works = [Workload(job_rank, 1, 4, samples=8000, seed=0) for job_rank in job_ranks]
        return [OpenClipOrder(shards(1000), work) for work in works]

    uses = node_uses(orders_of(0), 12)
    flat = [shard for of_epoch in uses for shard in of_epoch]
    downloaded = fewest_downloads(flat, room=len(uses[0]))
    # docs/training.md has this number.
    later = downloaded[2 * len(uses[0]) :]
    assert sum(later) / len(later) == pytest.approx(0.6, abs=0.03)


@pytest.mark.parametrize("count", [5, 47, 48, 130])
def test_any_two_shards_of_a_balanced_order_may_be_read_at_the_same_time(count):
    source = MixedSource(tuple((shard, 10) for shard in shards(count)))
    order = BalancedOrder([source], job_rank=JobRank(0, 1), batch_size=1, seed=2)
    first_half: dict[Shard, set[Shard]] = {shard: set() for shard in shards(count)}
    for epoch in range(300):
        streams = [list(order.shards_of(epoch, key)) for key in order.first_round(epoch)]
        assert sorted(shard for stream in streams for shard in stream) == shards(count)
        firsts = {stream[0] for stream in streams}
        for shard in firsts:
            first_half[shard] |= firsts
    assert all(together == set(shards(count)) for together in first_half.values())
