"""Byte budgets: work that fits starts at once, the rest waits its turn.

Work that is larger than the whole budget runs alone.
"""

import threading

from wdsflow.memory.budget import Budget
from wdsflow.memory.shared_budget import SharedBudget


def holding(
    budget: Budget | SharedBudget, size: int
) -> tuple[threading.Event, threading.Event, threading.Thread]:
    """Hold bytes in a thread.

    Returns the event that is set once they are held, the event that releases them, and the thread.
    """
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with budget.hold(size):
            held.set()
            done.wait()

    thread = threading.Thread(target=hold, daemon=True)
    thread.start()
    return held, done, thread


def test_bytes_are_counted_while_they_are_held():
    budget = Budget(10)
    with budget.hold(6):
        with budget.hold(4):  # exactly the rest
            assert budget.used == 10
        assert budget.used == 6
    assert (budget.used, budget.peak) == (0, 10)
    with budget.hold(25):  # alone
        assert budget.used == 25
    assert (budget.used, budget.peak, budget.total) == (0, 25, 10)


def test_who_wants_more_than_is_free_waits_and_those_after_it_wait_as_well():
    budget = Budget(10)
    with budget.hold(6):
        large, end_large, first = holding(budget, 5)
        while len(budget._waiting) < 1:
            pass
        small, end_small, second = holding(budget, 1)
        while len(budget._waiting) < 2:
            pass
        assert not large.wait(0.05)
        assert not small.is_set()
        assert budget.used == 6
    large.wait()
    small.wait()
    assert budget.used == 6
    end_large.set()
    end_small.set()
    first.join()
    second.join()
    assert (budget.used, budget.peak) == (0, 6)


def test_a_shared_budget_sets_an_eighth_aside_for_small_requests():
    budget = SharedBudget(1600, 2)  # 100 for each process, 1400 for all others
    with budget.hold(100):
        assert budget.used == 0
        with budget.hold(101), budget.hold(1299):
            assert budget.used == 1400
            assert not budget._take(101)
            assert budget._state[1] == 101
        assert budget.used == 0
    assert not budget._state[0]
    with budget.hold(5000):
        assert budget.used == 5000
    assert (budget.used, budget.total) == (0, 1600)


def test_the_largest_request_that_waits_goes_first():
    budget = SharedBudget(1600, 2)
    assert budget._take(1000)
    assert not budget._take(500)
    assert not budget._take(450)  # smaller: the largest stays noted
    assert budget._state[1] == 500
    assert not budget._take(300)  # it would fit, but a larger one waits
    budget._state[0] -= 200
    assert budget._take(500)  # nobody larger waits now
    assert budget._state[1] == 0
    assert budget._take(100)
    assert not budget._take(1)
    budget.clear()
    assert (budget.used, budget._state[1]) == (0, 0)


def test_bytes_are_given_back_after_an_exception():
    for budget in (Budget(10), SharedBudget(10, 1)):
        try:
            with budget.hold(9):
                raise KeyError
        except KeyError:
            assert budget.used == 0
