"""Which epoch an iteration begins.

Tests OpenCLIP's loop, custom loops, a look at the first batches, and resuming.
"""

import logging

import pytest

pytest.importorskip("open_clip_train", reason="OpenCLIP is not installed")

from tests.training.shards import write_shards
from tests.training.test_loader import EVAL, digest, loader


@pytest.fixture
def data(tmp_path):
    return write_shards(tmp_path, [13, 9, 14, 7, 12])


@pytest.fixture
def warnings(caplog):
    caplog.set_level(logging.WARNING, logger="wdsflow.training")
    return lambda: [
        record.getMessage() for record in caplog.records if "begins" in record.getMessage()
    ]


def make(data, **more):
    return loader(data, decode_in="threads", **more)


def epochs_of(data, count):
    """The batches of each epoch, as set_epoch gives them."""
    loading, found = make(data), []
    for epoch in range(count):
        loading.set_epoch(epoch)
        found.append([digest(batch) for batch in loading])
    return found


def test_each_iteration_of_a_custom_loop_begins_the_next_epoch(data, warnings):
    asked = epochs_of(data, 3)
    assert len({digest for epoch in asked for digest in epoch}) == 3 * len(asked[0])
    loading = make(data)
    assert [[digest(batch) for batch in loading] for _ in range(3)] == asked
    assert not warnings()


def test_a_loop_that_ends_early_counts_and_a_look_does_not(data, warnings):
    first, second = epochs_of(data, 2)
    loading = make(data)
    iter(loading)  # as frameworks do to see whether they can
    assert digest(next(iter(loading))) == first[0]
    running = iter(loading)
    assert [digest(next(running)) for _ in range(2)] == first[:2]
    assert [digest(batch) for batch in loading] == second
    assert not warnings()


def test_an_epoch_of_one_batch_counts(data):
    loading = make(data, schedule="balanced", batch_size=64)
    assert loading.num_batches == 1
    assert digest(next(iter(loading))) != digest(next(iter(loading)))


def test_an_epoch_that_the_caller_repeats_is_warned_of(data, warnings):
    loading = make(data)
    for _ in range(2):
        assert not warnings()
        loading.set_epoch(0)
        list(loading)
    [warning] = warnings()
    assert "epoch 0 begins again" in warning
    assert "set_epoch(0) was called" in warning


def test_a_loop_that_begins_again_for_each_batch_is_warned_of(data, warnings):
    loading = make(data)
    assert len({digest(next(iter(loading))) for _ in range(4)}) == 1
    [warning] = warnings()
    assert "the last 2 iterations ended after one batch" in warning


def test_set_epoch_between_iter_and_the_first_batch_is_heard(data):
    asked = epochs_of(data, 3)
    loading = make(data)
    running = iter(loading)
    loading.set_epoch(2)  # a hook of Lightning at the start of an epoch comes here
    assert [digest(batch) for batch in running] == asked[2]
    assert loading.epoch == 3


def test_a_state_resumes_in_its_epoch_without_set_epoch_and_with_it(data):
    asked = epochs_of(data, 3)
    loading = make(data)
    list(loading)
    running = iter(loading)
    for _ in range(4):
        next(running)
    state = loading.state_dict()
    assert (state["epoch"], state["batch"]) == (1, 4)
    for set_epoch in (False, True):
        again = make(data)
        again.load_state_dict(state)
        if set_epoch:
            again.set_epoch(1)
        assert again.state_dict() == state
        assert digest(next(iter(again))) == asked[1][4]  # a look
        assert [digest(batch) for batch in again] == asked[1][4:]
        assert [digest(batch) for batch in again] == asked[2]
    other = make(data)
    other.load_state_dict(state)
    other.set_epoch(0)
    assert [digest(batch) for batch in other] == asked[0]


def test_evaluation_is_the_same_each_time_and_has_no_length_until_it_is_known(data):
    loading = make(data, train=False, preprocess=EVAL)
    assert [digest(batch) for batch in loading] == [digest(batch) for batch in loading]
    with pytest.raises(TypeError, match="val_num_samples"):
        len(loading)
    assert (
        len(make(data, train=False, preprocess=EVAL, arguments_more={"val_num_samples": 55})) == 14
    )
