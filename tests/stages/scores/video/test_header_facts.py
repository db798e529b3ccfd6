"""What a video's header tells in several ways, and samplings that there are."""

from fractions import Fraction
from types import SimpleNamespace

import pytest

from tests.stages.scores.fields import made
from wdsflow.stages.scores.video_facts import _duration

MICRO = 2_500_000  # of the container


@pytest.mark.parametrize(
    ("ticks", "tag", "whole", "expected"),
    [
        (50, "", MICRO, (Fraction(2), True)),
        (50, "01:00:00", MICRO, (Fraction(2), True)),
        (None, "01:02:03.5", MICRO, (Fraction(7447, 2), True)),
        (0, "10:00:01", MICRO, (Fraction(36_001), True)),
        (-5, "00:00:00.040", None, (Fraction(1, 25), True)),
        (None, "00:00:00", MICRO, (Fraction(5, 2), False)),
        (None, "two hours", MICRO, (Fraction(5, 2), False)),
        (None, "", 1, (Fraction(1, 1_000_000), False)),
        (None, "", 0, (None, False)),
        (None, "", None, (None, False)),
    ],
)
def test_a_duration_is_the_streams_own_or_that_of_its_tag_or_of_the_file(
    ticks, tag, whole, expected
):
    stream = SimpleNamespace(
        duration=ticks, time_base=Fraction(1, 25), metadata={"DURATION": tag} if tag else {}
    )
    assert _duration(SimpleNamespace(duration=whole), stream) == expected


@pytest.mark.parametrize(
    ("how", "frames", "fits"),
    [("uniform", 1, True), ("uniform", 0, False), ("key", 0, True), ("key", -1, False)],
)
def test_a_sampling_has_a_frame_or_all_key_frames(how, frames, fits):
    if fits:
        assert made("classify", sampling=how, frames=frames).frame_sampling == (how, frames)
    else:
        words = "at least 1$" if how == "uniform" else "at least 1, or 0 for all key frames"
        with pytest.raises(ValueError, match=f"classify: frames={frames}; it has to be {words}"):
            made("classify", sampling=how, frames=frames)
