"""Samples are followed through a stage by their keys.

They are followed into elements of several samples by their values.
"""

from wdsflow.validate.pipeline.meters.combined_samples import RecentInputs
from wdsflow.validate.pipeline.meters.followed_keys import FollowedKeys

KNOWN, NEW_AGAIN = (True, False), (True, True)


def test_a_sample_that_comes_more_often_than_it_entered_comes_again() -> None:
    keys = FollowedKeys()
    for key in ("a", "b", "a"):
        keys.note_yielded(0, key, None)

    assert [keys.note_yielded(1, key, None) for key in ("a", "a", "a")] == [KNOWN, KNOWN, NEW_AGAIN]
    assert keys.note_yielded(1, "made", None) == (False, False)


def test_equal_keys_of_two_shards_are_two_samples() -> None:
    keys = FollowedKeys()
    for shard in ("0.tar", "1.tar"):
        keys.note_yielded(0, "a", shard)

    assert [keys.note_yielded(1, "a", "0.tar") for _ in range(2)] == [KNOWN, NEW_AGAIN]


def test_a_stage_that_leaves_out_the_shard_is_followed_by_keys() -> None:
    keys = FollowedKeys()
    keys.note_yielded(0, "a", "0.tar")

    assert [keys.note_yielded(1, "a", None) for _ in range(2)] == [KNOWN, NEW_AGAIN]


def sample(number: int, **others: object) -> dict[str, object]:
    return {"__key__": str(number), "jpg": b"a picture of some bytes %d" % number, **others}


def test_values_of_two_samples_in_one_element_combine_them() -> None:
    recent = RecentInputs()
    samples = [sample(number) for number in range(4)]
    for number, each in enumerate(samples):
        recent.add(each, str(number), "0.tar")

    one, other, third, _ = samples
    assert recent.combined_in(third) == []
    assert recent.combined_in({"left": one["jpg"], "right": [other["jpg"]]}) == [("1", "0.tar")]
    # Each of them is counted once.
    assert recent.combined_in((one["jpg"], other["jpg"])) == []


def test_a_value_that_all_samples_share_combines_none() -> None:
    recent = RecentInputs()
    mask = bytes(100)
    samples = [sample(number, mask=mask) for number in range(4)]
    for number, each in enumerate(samples):
        recent.add(each, str(number), "0.tar")

    assert recent.combined_in(samples[1]) == []
