"""What stands in for parts of OpenCLIP's loop while it trains."""

import random
from contextlib import ExitStack
from types import ModuleType

import numpy as np
import pytest
import torch

from wdsflow.training.launch import checkpoints
from wdsflow.training.launch.replaced_names import replace_name
from wdsflow.training.launch.resume import StepCounter, count_steps


def loop(loader, others):
    seen = []
    for number, batch in enumerate(loader):
        seen.append((number, batch))
    return seen, list(enumerate(others, 5)), list(enumerate(others))


@pytest.mark.parametrize("first", [0, 7])
def test_the_batches_of_one_loader_are_counted_and_all_else_is_left_alone(first):
    begun, done, loader = [], [], ["a", "b"]
    steps = StepCounter(loader, first, lambda: begun.append(1), done.append)
    with count_steps(loop, steps):
        found = loop(loader, ["x"])
    assert found == ([(first, "a"), (first + 1, "b")], [(5, "x")], [(0, "x")])
    assert (begun, done) == ([1], [first + 1, first + 2])
    assert "enumerate" not in loop.__globals__


def test_a_loop_that_counts_no_batch_is_refused():
    steps = StepCounter([], 0, lambda: None, lambda number: None)
    with (
        pytest.raises(
            RuntimeError, match=r"test_loop_parts\.loop does not enumerate its batches any more$"
        ),
        count_steps(loop, steps),
    ):
        assert loop([], ["x"])[1] == [(5, "x")]
    assert "enumerate" not in loop.__globals__


def test_an_empty_loader_is_counted_too():
    loader, done = [], []
    with count_steps(loop, StepCounter(loader, 3, done.append, done.append)):
        assert loop(loader, ())[0] == []
    assert done == []


def test_names_of_a_module_are_replaced_until_the_end():
    module = ModuleType("m")
    vars(module)["save"] = 1
    with ExitStack() as stack:
        stack.enter_context(replace_name(module, "save", 2))
        assert vars(module)["save"] == 2
    assert vars(module)["save"] == 1


@pytest.mark.parametrize("device", [None, "cpu", "cuda:0"])
def test_random_generators_go_on_where_they_were(device, monkeypatch):
    def draw():
        return random.random(), random.gauss(0, 1), float(np.random.normal()), float(torch.rand(()))  # noqa: NPY002

    kept = checkpoints.capture_random_states()
    cards = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda name: f"state of {name}")
    monkeypatch.setattr(
        torch.cuda, "set_rng_state", lambda state, name: cards.append((state, name))
    )
    try:
        draw()
        states = checkpoints.capture_random_states(device)
        first = draw()
        checkpoints.restore_random_states(states, device)
        assert draw() == first
        assert cards == ([("state of cuda:0", "cuda:0")] if device == "cuda:0" else [])
        checkpoints.restore_random_states(states, "cpu")
        checkpoints.restore_random_states({**states, "cuda": "other"})
        assert len(cards) == (device == "cuda:0")
    finally:
        checkpoints.restore_random_states(kept)
