"""What becomes of items and devices travels between processes."""

import pickle

from wdsflow.memory.batching.attempt import Failure, PoisonedError


def test_a_lost_device_takes_what_is_done_along():
    error = PoisonedError(
        "lost", {0: 1.5, 2: Failure("raised-ValueError", "bad", {"cost": 3})}, (1, 3)
    )

    other = pickle.loads(pickle.dumps(error))

    assert str(other) == "lost"
    assert other.done == error.done
    assert other.suspects == (1, 3)


def test_failures_are_values():
    assert len({Failure("a", "b", {"cost": 1}), Failure("a", "b", {"cost": 1})}) == 1
