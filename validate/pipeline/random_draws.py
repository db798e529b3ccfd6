"""Whether code drew random numbers."""

import random
import sys


def state_of_chance() -> list[object]:
    """Return the states of the global generators of Python, numpy and torch, as far as these are imported."""
    states: list[object] = [random.getstate()]
    if numpy := sys.modules.get("numpy"):
        states.append(str(numpy.random.get_state()))
    if torch := sys.modules.get("torch"):
        states.append(torch.get_rng_state().numpy().tobytes())
    return states
