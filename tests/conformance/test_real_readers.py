"""The predictions against the readers themselves; scripts/conformance does the same with more shard sets."""

import os
from contextlib import closing
from pathlib import Path

import pytest

from tests.conformance.compare import Environment, RealReader, compare, environments
from wdsflow.readers import READERS

SETS = {  # in the gate
    "open-clip-3.3": 25,
    "open-clip-4": 20,
    "webdataset-1": 20,
    "datasets": 20,
    "datasets-tables": 10,
    "ray-data": 4,
    "timm": 10,
    "webdataset-0.2": 15,
}


@pytest.mark.parametrize("times", [1, pytest.param(10, marks=pytest.mark.deep)])
@pytest.mark.parametrize("environment", environments(os.environ), ids=lambda environment: environment.reader)
def test_the_prediction_is_what_the_real_reader_does(environment: Environment, times: int, tmp_path: Path) -> None:
    if environment.missing:
        pytest.skip(environment.missing)
    shards = tmp_path / "shards"
    shards.mkdir()

    with closing(RealReader(environment, tmp_path)) as reader:
        wrong = [
            str(result)
            for result in compare(reader, environment.reader, range(times * SETS[environment.reader]), shards)
            if result.differences
        ]

    assert not wrong, "\n\n".join(wrong[:3])


def test_every_reader_is_compared_with_the_real_one() -> None:
    assert {environment.reader for environment in environments({})} == set(READERS) == set(SETS)
