"""The demonstration shows what it claims to show.

scripts/demo itself runs OpenCLIP to confirm it.
"""

import pytest
from support import demo

from wdsflow import check, example_shards


@pytest.fixture(scope="module")
def drawn():
    return example_shards.draw(demo.SAMPLES)


@pytest.mark.sample(3)
@pytest.mark.parametrize("scenario", demo.SCENARIOS, ids=lambda scenario: scenario.title)
def test_a_set_of_the_demonstration_gets_the_outcome_that_is_announced(
    scenario, drawn, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    scenario.make(tmp_path / scenario.name, drawn)
    arguments = scenario.training if scenario.with_arguments else None
    report = check(f"{scenario.name}/{demo.URLS}", ["open-clip-3.3"], arguments=arguments, jobs=1)
    assert report.verdicts[0].outcome.upper() == scenario.outcome
    assert report.ok == (scenario.status == 0)


def test_the_advice_on_the_json_shards_is_the_command_that_the_demonstration_runs(
    drawn, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    demo.SCENARIOS[1].make(tmp_path / "json", drawn)
    report = check(f"json/{demo.URLS}", ["open-clip-3.3"], jobs=1)
    assert (
        report.advice[0].command
        == f"wdsflow repair 'json/{demo.URLS}' -o repaired --caption json:description"
    )
    assert report.advice[0].regains == demo.SAMPLES
