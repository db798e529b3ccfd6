"""What holds no sample is not counted as one, and batches of an unknown size are not judged."""

from pathlib import Path

import pytest

from tests.validate.pipeline.small_set import judged, write


@pytest.mark.parametrize("name", ["texts", "collated_texts", "beside_a_number", "nested_beside_a_number"])
def test_the_samples_in_batches_that_are_not_full_are_counted(name: str, tmp_path: Path) -> None:
    verdict = judged("blank_pipelines", name, [write(tmp_path / "0.tar", 40)])

    assert (verdict.outcome, verdict.usable, verdict.samples) == ("loses", 30, 40)


def test_batches_of_an_unknown_size_are_not_judged(tmp_path: Path) -> None:
    verdict = judged("blank_pipelines", "joined", [write(tmp_path / "0.tar", 40)])

    assert verdict.outcome == "not judged"
    assert "4 batches came out, and how many samples they hold is not visible" in verdict.reasons[0].message
