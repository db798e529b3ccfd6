"""The global random generators of Python, numpy and torch, as far as these are imported."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import attrgetter

# Module -> the functions that get and set the state of its generator.
_GENERATORS = {
    "random": ("getstate", "setstate"),
    "numpy": ("random.get_state", "random.set_state"),
    "torch": ("get_rng_state", "set_rng_state"),
}


@contextmanager
def same_random_state() -> Iterator[None]:
    """Restore the global random generators afterwards."""
    states: list[tuple[Callable[[object], object], object]] = []
    for name, (get_name, set_name) in _GENERATORS.items():
        module = sys.modules.get(name)
        if module is not None:
            states.append((attrgetter(set_name)(module), attrgetter(get_name)(module)()))
    try:
        yield
    finally:
        for set_state, state in states:
            set_state(state)
