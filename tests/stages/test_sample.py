"""Sample: a share by key."""

import pytest

from wdsflow.stages import Sample, StageError

SAMPLES = [{"__key__": f"{number:06}"} for number in range(5000)]


def kept(stage: Sample, samples: list[dict[str, str]] = SAMPLES) -> set[str]:
    return {sample["__key__"] for sample in stage(dict(sample) for sample in samples)}


@pytest.mark.parametrize("rate", [0, 0.01, 0.3, 1])
def test_about_that_share_is_kept_and_the_rest_counted(rate):
    stage = Sample(rate)
    assert len(kept(stage)) / 5000 == pytest.approx(rate, abs=0.02)
    assert stage.counts.dropped["not-sampled"] == 5000 - stage.counts.kept


def test_the_choice_does_not_depend_on_order_and_grows_with_the_rate():
    assert kept(Sample(0.3)) == kept(Sample(0.3), SAMPLES[::-1])
    assert kept(Sample(0.1)) < kept(Sample(0.3))


def test_another_seed_is_another_choice():
    both = kept(Sample(0.5, seed=1)) & kept(Sample(0.5, seed=2))
    assert len(both) / 5000 == pytest.approx(0.25, abs=0.03)


def test_the_choice_is_the_same_for_ever():
    """These values must never change.

    A filtered data set must be reproducible with later versions.
    """
    assert sorted(kept(Sample(0.002))) == [
        "000212",
        "000601",
        "000919",
        "001078",
        "001256",
        "003277",
        "003302",
        "003393",
        "003908",
        "004263",
        "004265",
        "004881",
    ]


def test_a_sample_without_key_is_an_error():
    with pytest.raises(StageError, match="no key"):
        list(Sample(0.5)([{"txt": "a"}]))


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan"), 50])
def test_a_rate_that_is_no_share_is_refused(rate):
    with pytest.raises(ValueError, match="between 0 and 1"):
        Sample(rate)
