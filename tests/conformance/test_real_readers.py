"""The predictions against the readers themselves; scripts/conformance does the same with more shard sets."""

import os
from contextlib import closing
from pathlib import Path

import pytest

from tests.conformance.compare import Environment, RealReader, compare, environments
from wdsflow.readers import CONSUMERS

SETS = {"open-clip-3.3": 50, "open-clip-4": 20, "webdataset-1": 40, "datasets": 40, "ray-data": 6}


@pytest.mark.parametrize("environment", environments(os.environ), ids=lambda environment: environment.consumer)
def test_the_prediction_is_what_the_real_reader_does(environment: Environment, tmp_path: Path) -> None:
    if environment.missing:
        pytest.skip(environment.missing)
    shards = tmp_path / "shards"
    shards.mkdir()

    with closing(RealReader(environment, tmp_path)) as reader:
        wrong = [
            str(result)
            for result in compare(reader, environment.consumer, range(SETS[environment.consumer]), shards)
            if result.differences
        ]

    assert not wrong, "\n\n".join(wrong[:3])


def test_every_consumer_is_compared_with_its_reader() -> None:
    assert {environment.consumer for environment in environments({})} == set(CONSUMERS) == set(SETS)
