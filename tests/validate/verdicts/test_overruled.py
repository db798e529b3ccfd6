"""What a training command makes of shards whose samples pass."""

from pathlib import Path

import pytest

from tests.validate.openclip import plain, write
from wdsflow import check
from wdsflow.validate import Verdict

STARVES = "gets 0 batches (3 usable samples in 1 shard, batch size 4): training hangs at epoch 0"


def judged(folder: Path, *usable: int, workers: int = 2) -> Verdict:
    write(folder, [plain(number, 9 - number, f"{place}-") for place, number in enumerate(usable)])
    data = f"{folder}/{{0000..{len(usable) - 1:04d}}}.tar"
    words = ["--train-data", data, "--train-num-samples", "9", "--batch-size", "4", "--seed", "1"]
    arguments = [*words, "--workers", str(workers), "--epochs", "2", "--warmup", "0"]
    return check(
        folder, ["open-clip-3.3"], level="full", jobs=1, arguments=arguments, max_loss=1.0
    ).verdicts[0]


@pytest.mark.sample(1)
@pytest.mark.parametrize("usable", [(9, 3), (3, 9)])
def test_a_worker_that_starves_makes_the_verdict_a_stall_with_who_and_why(
    usable: tuple[int, int], tmp_path: Path
) -> None:
    found = judged(tmp_path, *usable)
    assert (found.outcome, found.usable) == ("stalls", 12)
    first, *others = found.reasons
    who = "rank 0 worker 1" if usable == (9, 3) else "rank 0 worker 0"
    assert (first.slug, first.message) == ("forecast", f"{who} {STARVES}")
    assert [reason.slug for reason in others] == ["no-caption"]


def test_a_command_that_crashes_makes_the_verdict_a_crash_with_the_exception(
    tmp_path: Path,
) -> None:
    found = judged(tmp_path, 9, 9, workers=3)
    assert found.outcome == "crashes"
    assert [reason.slug for reason in found.reasons] == ["forecast"]
    assert "AssertionError" in found.reasons[0].message


def test_what_the_verdict_says_already_is_not_said_again_for_the_command(tmp_path: Path) -> None:
    found = judged(tmp_path, 0, 0)
    assert found.outcome == "stalls"
    assert [reason.slug for reason in found.reasons] == ["no-caption"]


def test_a_command_that_trains_leaves_the_verdict_as_it_is(tmp_path: Path) -> None:
    found = judged(tmp_path, 9, 9)
    assert (found.outcome, found.reasons) == ("trains", ())
