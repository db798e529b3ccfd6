"""What holds for the tests of training."""

from collections.abc import Iterator

import pytest

from tests.training.trainings import end_driver


@pytest.fixture(scope="session", autouse=True)
def driver_ends() -> Iterator[None]:
    """End the process in whose forks small trainings run, after the last of them."""
    yield
    end_driver()
