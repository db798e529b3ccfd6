"""A feed that is stopped near the end of an epoch, and resumed.

In some sets the last samples do not decode.
"""

import json
import random
from collections import Counter
from dataclasses import dataclass

import pytest

from tests.training.shards import jpeg, write_tar
from wdsflow import FeedOptions
from wdsflow import feed as make
from wdsflow.training import StallError

QUIET = FeedOptions(status_every=0.0, decode_in="threads", decoders=1)


def write_set(folder, counts, bad):
    """Write shards in which some images do not decode.

    ``counts``: samples per shard. Returns the pattern and the valid keys.
    """
    number, valid = 0, set()
    for shard, count in enumerate(counts):
        members = []
        for _ in range(count):
            key = f"{number:03d}"
            valid |= set() if number in bad else {key}
            members += [
                (f"{key}.jpg", b"no image" if number in bad else jpeg(number)),
                (f"{key}.txt", b"a"),
            ]
            number += 1
        write_tar(folder / f"{shard}.tar", members)
    return f"{folder}/*.tar", valid


def feed(shards, **given):
    return make(shards, **{"fields": ("jpg", "__key__"), "options": QUIET, **given})


def keys(batches):
    return [batch for _, batch in batches]


def test_a_feed_whose_last_samples_are_damaged_can_be_resumed_before_them(tmp_path):
    shards, valid = write_set(tmp_path, [40], range(36, 40))
    one = feed(shards, batch_size=4, shuffle=0)
    batches = iter(one)
    first = keys(next(batches) for _ in range(9))
    state, rest = one.state_dict(), keys(batches)
    again = feed(shards, batch_size=4, shuffle=0)
    again.load_state_dict(state)
    assert keys(again) == rest == [["000", "001", "002", "003"]]
    assert [key for batch in first for key in batch] == sorted(valid)
    assert again.tally.noted["repeated"] == again.tally.lost == 4


def test_a_rank_whose_only_sample_is_damaged_gives_another_one(tmp_path):
    shards, _ = write_set(tmp_path, [4], [2])
    ranks = [
        keys(feed(shards, batch_size=4, shuffle=0, rank=rank, world_size=4)) for rank in range(4)
    ]
    assert ranks == [[["000"]], [["001"]], [["000"]], [["003"]]]


def test_lost_samples_are_replaced_by_the_next_ones(tmp_path):
    shards, _ = write_set(tmp_path, [12], [1, 2, 9])
    given = keys(feed(shards, batch_size=4, shuffle=0))
    assert given == [
        ["000", "004", "005", "003"],
        ["004", "005", "006", "007"],
        ["008", "008", "010", "011"],
    ]


def test_shards_without_a_valid_sample_still_end_with_an_error(tmp_path):
    shards, _ = write_set(tmp_path, [5, 4], range(9))
    for rank in range(2):
        with pytest.raises(StallError, match=r"\d samples lost in a row"):
            keys(feed(shards, batch_size=2, rank=rank, world_size=2))


@pytest.mark.sample(1)
@pytest.mark.parametrize("shuffle", [0, 5])
def test_samples_that_a_shard_no_longer_has_are_lost_and_replaced(tmp_path, shuffle):
    """A shard is written again, with fewer samples, between counting and reading."""
    shards, _ = write_set(tmp_path, [9, 12, 7], [])
    ranks = [
        feed(shards, batch_size=4, shuffle=shuffle, rank=rank, world_size=2) for rank in range(2)
    ]
    members = [
        (f"new{number}.{field}", data)
        for number in range(5)
        for field, data in (("jpg", jpeg(1)), ("txt", b"a"))
    ]
    write_tar(tmp_path / "1.tar", members)
    given = [keys(one) for one in ranks]
    assert [list(map(len, batches)) for batches in given] == [[4, 4, 3, 3]] * 2
    every = {
        *(f"{number:03d}" for number in (*range(9), *range(21, 28))),
        *(f"new{number}" for number in range(5)),
    }
    assert {key for batches in given for batch in batches for key in batch} == every
    assert sum(one.tally.kept for one in ranks) == len(every)
    assert sum(one.tally.noted["repeated"] for one in ranks) == 12 - 5


@dataclass
class Job:
    """A number of ranks, their batches, and after how many of them they stop."""

    ranks: int
    batch_size: int
    stop: int

    def run(self, shards, state, **given):
        """Return the batches of each rank, and the state afterwards."""
        batches, states = [], set()
        for rank in range(self.ranks):
            one = feed(
                shards, batch_size=self.batch_size, rank=rank, world_size=self.ranks, **given
            )
            if state is not None:
                one.load_state_dict(json.loads(state))
            own = iter(one)
            batches.append(keys(batch for _, batch in zip(range(self.stop), own, strict=False)))
            states.add(json.dumps(one.state_dict()))
            one.close()
        # Without torch.distributed, the epoch of ranks for
        # which no sample is left has ended one batch before.
        assert len(states) == 1 or self.stop > min(map(len, batches))
        return batches, states.pop()


TO_THE_END = 10**6


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(3, 103))]
)
def test_feeds_stop_near_the_end_of_an_epoch_and_are_resumed(tmp_path, seed):
    rng = random.Random(seed)
    counts = [rng.randrange(1, 25) for _ in range(rng.choice([1, 2, 5]))]
    total = sum(counts)
    some = rng.sample(range(total), rng.randrange(total))
    bad = {*range(total - rng.randrange(min(10, total)), total), *some[: rng.randrange(9)]}
    shards, valid = write_set(tmp_path, counts, bad if len(bad) < total else {0})
    given = {"shuffle": rng.choice([0, 3, 5000]), "seed": seed}
    ranks, others = (min(total, rng.randrange(1, 9)) for _ in range(2))
    batch_size = rng.randrange(1, 7)

    whole, _ = Job(ranks, batch_size, TO_THE_END).run(shards, None, **given)
    steps = min(map(len, whole))
    stop = max(0, steps - rng.randrange(1, 4))
    first, state = Job(ranks, batch_size, stop).run(shards, None, **given)
    # The same ranks give the same batches as without a stop.
    rest, _ = Job(ranks, batch_size, TO_THE_END).run(shards, state, **given)
    assert [begun + ended for begun, ended in zip(first, rest, strict=True)] == whole
    # Other ranks give every valid sample that was not given, and all take the same steps.
    other, _ = Job(others, rng.randrange(1, 7), TO_THE_END).run(shards, state, **given)
    lengths = [len(batches) for batches in other]
    assert sorted(lengths, reverse=True) == lengths
    assert lengths[0] - lengths[-1] <= 1
    for batches in (whole, [*first, *rest], [*first, *other]):
        found = Counter(key for of_rank in batches for batch in of_rank for key in batch)
        assert found.keys() == valid
        assert found.total() == total
