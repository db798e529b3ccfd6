"""What holds no sample is not counted as one, and batches of an unknown size are not judged."""

from pathlib import Path

import pytest

from tests.validate.pipeline.small_set import judged, write

# Each starts a process that imports PyTorch.


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "name", ["texts", "collated_texts", "beside_a_number", "nested_beside_a_number", "files"]
)
def test_the_samples_in_batches_that_are_not_full_are_counted(name: str, tmp_path: Path) -> None:
    verdict = judged("blank_loaders", name, [write(tmp_path / "0.tar", 40)])

    assert (verdict.outcome, verdict.usable, verdict.samples) == ("loses", 30, 40)


def test_batches_of_an_unknown_size_are_not_judged(tmp_path: Path) -> None:
    verdict = judged("blank_loaders", "joined", [write(tmp_path / "0.tar", 40)])

    assert verdict.outcome == "not judged"
    assert (
        "4 batches came out, and how many samples they hold is not visible"
        in verdict.reasons[0].message
    )


@pytest.mark.parametrize("name", ["none_for_some", "keyed_or_blank"])
def test_elements_that_hold_no_sample_are_lost(name: str, tmp_path: Path) -> None:
    verdict = judged("blank_pipelines", name, [write(tmp_path / "0.tar", 40)])

    assert (verdict.outcome, verdict.usable, verdict.samples) == ("loses", 20, 40)
    assert f"{name} gives None for 20 samples (" in verdict.reasons[0].message
    assert [reason.count for reason in verdict.reasons] == [20]


def test_elements_without_a_key_among_others_with_one_are_not_judged(tmp_path: Path) -> None:
    verdict = judged("blank_pipelines", "keyed_or_not", [write(tmp_path / "0.tar", 40)])

    assert verdict.outcome == "not judged"
    assert "20 elements came out without the __key__ that others have" in verdict.reasons[0].message


def test_all_keys_of_a_list_are_samples(tmp_path: Path) -> None:
    verdict = judged("blank_pipelines", "lists_of_keys", [write(tmp_path / "0.tar", 40)])

    assert (verdict.outcome, verdict.usable, verdict.samples) == ("trains", 40, 40)


def test_vectors_may_be_batches(tmp_path: Path) -> None:
    assert (
        judged("blank_loaders", "vectors", [write(tmp_path / "0.tar", 40)]).outcome == "not judged"
    )


def test_where_elements_are_counted_the_report_says_that_samples_are_not_visible(
    tmp_path: Path,
) -> None:
    verdict = judged("blank_pipelines", "half_of_them_twice", [write(tmp_path / "0.tar", 40)])

    message = verdict.reasons[0].message
    assert verdict.outcome == "not judged"
    assert message.startswith(
        "40 elements came out of 40 samples; which samples they are is not visible"
    )
    assert message.endswith(
        'let it give the __key__ as well while you validate, such as by wds.to_tuple("__key__", "jpg", "txt")'
    )
    assert "40 elements came out, in which no key of a sample is visible" in verdict.note
