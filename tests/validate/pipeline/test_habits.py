"""What a report says of pipelines whose habits are known: no sample trains that was not seen."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.validate.pipeline.small_set import HERE, different, judged, run
from wdsflow.validate import Verdict
from wdsflow.validate.pipeline.judge_pipeline import RunLimits
from wdsflow.validate.verdicts.verdict import Outcome

# Each starts a process that imports PyTorch.


@dataclass
class Habit:
    """What a pipeline does with 40 samples, and what a report has to say."""

    seen: int  # samples that are in its output
    outcome: Outcome
    message: str = ""  # in its reasons


REPLACED = "in their place others came out again, more often than the shards have them"
HIDDEN = "which samples they are is not visible"
REPEATS = "their content repeats more than that of the shards"

HABITS = {
    "half_twice": Habit(
        20, "loses", f"20 of 40 samples: {REPLACED}: stage 1 half_twice gives them"
    ),
    "half_twice_decoded": Habit(20, "loses", REPLACED),
    "half_twice_cropped": Habit(20, "not judged", HIDDEN),
    "half_twice_flipped": Habit(20, "not judged", HIDDEN),
    "other_half_flipped": Habit(20, "not judged", HIDDEN),
    "half_twice_after_tuples": Habit(20, "not judged", HIDDEN),
    "whole_decoded": Habit(40, "trains"),
    "whole_cropped": Habit(40, "not judged", HIDDEN),
    "whole_cropped_with_captions": Habit(
        40, "not judged", "content shows 36 different samples among them"
    ),
    "Pictures": Habit(40, "trains"),
    "OthersInstead": Habit(32, "loses", REPLACED),
    "KeyedOthersInstead": Habit(32, "loses", "the first: sample 000004 of 0.tar"),
    "BlackInstead": Habit(33, "loses", REPLACED),
    "RandomItems": Habit(40, "not judged", HIDDEN),
    "loader_of_items": Habit(40, "trains"),
    "loader_of_others": Habit(32, "loses", f"{REPLACED}: stage 1 OthersInstead gives them"),
    "loader_that_draws": Habit(
        29, "loses", "samples came more than once: 11 of 40 had come before"
    ),
    "swap": Habit(32, "loses", "8 of 40 samples: in their place others came out again"),
    "swap_decoded": Habit(32, "loses", REPLACED),
    "swap_pil": Habit(32, "loses", REPLACED),
    "swap_cropped": Habit(32, "not judged", REPEATS),
    "always_the_first": Habit(1, "loses", REPLACED),
    "keyed_crops": Habit(40, "trains"),
    "crops_and_tokens": Habit(40, "trains"),
    "crops_and_labels": Habit(40, "trains"),
    "loader_whose_collate_drops": Habit(30, "loses", "or its collate function drops them"),
    "loader_whose_collate_doubles": Habit(20, "loses", REPLACED),
    "loader_that_stacks": Habit(40, "trains"),
    "batch_map_that_doubles": Habit(20, "loses", REPLACED),
    "two_of_some": Habit(20, "not judged", "how many samples they hold is not visible"),
    "loader_of_distinct": Habit(40, "not judged", HIDDEN),
    "cached": Habit(
        80, "trains", "samples came more than once: 40 of 80 had come before; it repeats"
    ),
    "one_cache_slot": Habit(10, "loses", REPLACED),
    "few_pictures": Habit(5, "loses", REPLACED),
    "dummy_pictures": Habit(40, "trains"),
    "pairs": Habit(40, "trains"),
    "mixed": Habit(40, "trains"),
    "interleaved": Habit(40, "trains"),
    "merged": Habit(
        40, "trains", "two_in_one combines 20 samples with others, into elements of several samples"
    ),
    "mixup": Habit(40, "not judged", HIDDEN),
    "lower": Habit(40, "not judged", "content shows 36 different samples among them"),
}
QUICK = ("half_twice", "swap_cropped")


def check(name: str, folder: Path) -> Verdict:
    expected = HABITS[name]

    verdict = judged("habit_pipelines", name, different(folder), RunLimits(seconds=60.0))

    messages = " | ".join(reason.message for reason in verdict.reasons)
    assert verdict.outcome == expected.outcome, messages
    assert expected.message in messages
    least = verdict.usable if verdict.least is None else verdict.least
    assert least <= expected.seen <= verdict.usable
    return verdict


@pytest.mark.webdataset
@pytest.mark.parametrize("name", QUICK)
def test_a_sample_trains_if_it_was_seen_in_the_output(name: str, tmp_path: Path) -> None:
    check(name, tmp_path)


@pytest.mark.deep
@pytest.mark.webdataset
@pytest.mark.parametrize("name", [name for name in HABITS if name not in QUICK])
def test_a_sample_trains_if_it_was_seen_in_the_output_of_more_kinds(
    name: str, tmp_path: Path
) -> None:
    check(name, tmp_path)


@pytest.mark.webdataset
def test_where_more_may_be_lost_the_report_says_up_to_how_many_train(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = f"{HERE / 'habit_pipelines.py'}:OthersInstead"

    assert run(*different(tmp_path), "--pipeline", spec, "--ignore", "F,I") == 1
    text = " ".join(capsys.readouterr().out.split())
    assert "LOSES up to 34 of 40 samples reach a batch" in text
    assert "at least 6 of 40 samples: in their place others came out again" in text


@pytest.mark.deep
@pytest.mark.webdataset
def test_samples_of_equal_keys_are_not_taken_for_each_other(tmp_path: Path) -> None:
    """Each key is in two shards. One of both samples is given twice, and the other never."""
    for folder in ("one", "other"):
        (tmp_path / folder).mkdir()
    urls = [*different(tmp_path / "one", 20, 1), *different(tmp_path / "other", 20, 1)]

    verdict = judged("habit_pipelines", "one_shard_twice", urls, RunLimits(seconds=60.0))

    assert verdict.outcome == "not judged"
    assert "first_half_twice made 40 elements of 40 samples" in verdict.reasons[0].message


@pytest.mark.deep
@pytest.mark.webdataset
@pytest.mark.parametrize("name", ["swap_pil", "half_twice", "whole_decoded", "cached"])
def test_samples_of_equal_content_are_no_repeats(name: str, tmp_path: Path) -> None:
    """Each content is in the shards twice.

    So a pipeline that yields every second sample twice yields each content as often as the shards
    have it.
    """
    verdict = judged(
        "habit_pipelines", name, different(tmp_path, copies=2), RunLimits(seconds=60.0)
    )

    trains = name != "swap_pil"
    assert verdict.outcome == ("trains" if trains else "loses"), verdict.reasons
    assert (verdict.usable == verdict.samples) == trains
