"""torchdata's StatefulDataLoader over a feed.

A state taken anywhere and loaded into a new loader yields the remaining samples.
"""

import json

import pytest
from torchdata.stateful_dataloader import StatefulDataLoader

from tests.training.shards import write_shards
from wdsflow import FeedOptions
from wdsflow import feed as make

QUIET = FeedOptions(status_every=0.0, decode_in="threads", decoders=1)
BATCHES = 5
END = "end"


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    return write_shards(tmp_path_factory.mktemp("shards"), [9, 8, 3])


def feed(shards):
    return make(shards, batch_size=4, fields=("__key__",), options=QUIET)


@pytest.fixture(scope="module")
def epochs(shards):
    """The batches of each epoch."""
    one = feed(shards)
    return [list(one) for _ in range(5)]


def loader(shards, workers, *, every=1):
    return StatefulDataLoader(
        feed(shards),
        batch_size=None,
        num_workers=workers,
        persistent_workers=workers > 0,
        snapshot_every_n_steps=every,
    )


DEEP = [
    pytest.param(workers, begun, stop, every, marks=pytest.mark.deep)
    for workers in (0, 1)
    for begun in (0, 1, 2)
    for stop in (0, 1, 2, 3, 4, BATCHES, END)
    for every in (1, 3)
]


@pytest.mark.parametrize(
    ("workers", "begun", "stop", "every"),
    [
        (0, 1, 2, 1),
        (0, 0, BATCHES, 1),
        (0, 1, END, 1),
        (1, 1, 3, 3),
        (1, 1, BATCHES, 1),
        (1, 1, END, 1),
        *DEEP,
    ],
)
def test_a_state_taken_anywhere_gives_the_rest_in_a_new_loader(
    shards, epochs, workers, begun, stop, every
):
    """``begun``: epochs before; ``stop``: batches of this one, or its end."""
    one = loader(shards, workers, every=every)
    assert [list(one) for _ in range(begun)] == epochs[:begun]
    if stop == END:
        list(one)
        rest = epochs[begun + 1 :]
    else:
        for _ in zip(range(stop), one, strict=False):
            pass
        rest = [epochs[begun][stop:], *epochs[begun + 1 :]]
    state = json.loads(json.dumps(one.state_dict()))
    again = loader(shards, workers, every=every)
    again.load_state_dict(state)
    assert again.state_dict() == state
    assert [list(again) for _ in range(2)] == rest[:2]


@pytest.mark.parametrize("persistent", [False, True])
def test_the_epoch_can_be_chosen_after_a_state_of_the_end_of_one(shards, epochs, persistent):
    def worker():
        return StatefulDataLoader(
            feed(shards), batch_size=None, num_workers=1, persistent_workers=persistent
        )

    one = worker()
    one.dataset.set_epoch(1)
    assert list(one) == epochs[1]
    again = worker()
    again.load_state_dict(one.state_dict())
    again.dataset.set_epoch(2)
    assert list(again) == epochs[2]
    again.dataset.set_epoch(3)  # for a worker that begins with the epoch
    assert list(again) == epochs[3]
