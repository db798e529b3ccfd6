"""Shuffle: bounded, seeded, complete."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from wdsflow.memory.weigh import estimated_size
from wdsflow.stages import Shuffle


def samples(count: int, size: int = 0) -> Iterator[dict[str, object]]:
    for number in range(count):
        yield {"__key__": f"{number:04}", "jpg": bytes(size)}


def order(stage: Shuffle, count: int = 500) -> list[str]:
    return [str(sample["__key__"]) for sample in stage(samples(count))]


def test_all_samples_come_out_once_in_another_order():
    found = order(Shuffle(100))
    assert found != sorted(found)
    assert sorted(found) == [f"{number:04}" for number in range(500)]


def test_the_order_is_the_same_for_the_same_seed_and_epoch_only():
    stage = Shuffle(100, seed=3)
    assert order(stage) == order(stage) == order(Shuffle(100, seed=3))
    assert len({tuple(order(Shuffle(100, seed=seed))) for seed in range(4)}) == 4
    assert order(replace(stage, epoch=1)) != order(stage)


def test_a_buffer_as_large_as_the_set_mixes_all_of_it():
    places = [order(Shuffle(500, seed=seed)).index("0000") for seed in range(60)]
    assert min(places) < 100
    assert max(places) > 400


@pytest.mark.parametrize(
    ("size", "initial", "first"), [(100, None, 101), (100, 1, 2), (100, 10, 11), (1, None, 2)]
)
def test_the_first_sample_comes_when_the_initial_ones_are_in(size, initial, first):
    stage = Shuffle(size, initial=initial)
    next(stage(samples(1000)))
    assert abs(stage.counts.seen - first) <= 1


def test_the_buffer_grows_to_its_size_and_not_beyond():
    stage = Shuffle(100, initial=10)
    most = max(stage.counts.seen - stage.counts.kept for _ in stage(samples(1000)))
    assert 98 <= most <= 101


def test_the_bytes_held_stay_within_the_bound():
    one = estimated_size(next(samples(1, 10_000)))
    stage = Shuffle(100, max_bytes=12 * one)
    held = [stage.counts.seen - stage.counts.kept for _ in stage(samples(200, 10_000))]
    assert max(held) <= 13  # 12 in the buffer and the one that just came
    assert max(held) >= 12
    assert stage.counts.kept == 200


def test_a_sample_larger_than_the_buffer_passes_by_and_is_noted():
    stage = Shuffle(10, max_bytes="100KB")
    first = next(stage(samples(5, 200_000)))
    assert first["__key__"] == "0000"
    assert stage.counts.noted == {"too-large-to-shuffle": 1}


@pytest.mark.parametrize(
    "settings", [{"size": 0}, {"size": 5, "initial": 6}, {"initial": 0}, {"max_bytes": "2G"}]
)
def test_bounds_that_mean_nothing_are_refused(settings):
    with pytest.raises(ValueError, match=r"size|initial|2G"):
        Shuffle(**settings)
