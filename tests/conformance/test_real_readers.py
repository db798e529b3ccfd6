"""The predictions, compared with the real readers.

scripts/conformance does the same with more shard sets.
"""

import os
from pathlib import Path

import pytest

from tests.conformance.compare import Environment, RealReaders, compare, environments
from wdsflow.readers import READERS

SETS = {  # in the gate
    "open-clip-3.3": 12,
    "open-clip-4": 10,
    "webdataset-1": 10,
    "datasets": 10,
    "datasets-tables": 5,
    "ray-data": 2,
    "timm": 5,
    "energon": 5,
    "energon-crude": 5,
    "webdataset-0.2": 8,
}


@pytest.mark.parametrize("times", [1, pytest.param(20, marks=pytest.mark.deep)])
@pytest.mark.parametrize(
    "environment", environments(os.environ), ids=lambda environment: environment.reader
)
def test_the_prediction_is_what_the_real_reader_does(
    environment: Environment, times: int, real_readers: RealReaders, tmp_path: Path
) -> None:
    if environment.missing:
        pytest.skip(environment.missing)

    with real_readers.open(environment) as reader:
        wrong = [
            str(result)
            for result in compare(
                reader, environment.reader, range(times * SETS[environment.reader]), tmp_path
            )
            if result.differences
        ]

    assert not wrong, "\n\n".join(wrong[:3])


def test_every_reader_is_compared_with_the_real_one() -> None:
    assert {environment.reader for environment in environments({})} == set(READERS) == set(SETS)
