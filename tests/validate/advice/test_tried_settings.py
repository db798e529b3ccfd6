"""Settings that a report prints for a training command work.

The changed command is not refused for another reason.
"""

import random

import pytest

from tests.validate.openclip import evidence_of, plain
from wdsflow.readers import OpenClip33
from wdsflow.readers.open_clip.arguments import Arguments
from wdsflow.scan.evidence import Evidence
from wdsflow.validate.advice.training_advice import advise_defaults, advise_training
from wdsflow.validate.advice.training_flags import flags_with_values, merged_flags, with_flags
from wdsflow.validate.advice.tried_settings import try_settings
from wdsflow.validate.catalog.run_rules import run_rules
from wdsflow.validate.forecast.forecast import forecast
from wdsflow.validate.rules.kit.base import Context
from wdsflow.validate.verdicts.judge import judge


def context_of(usable, **command):
    shards = [
        evidence_of(f"s/{number}.tar", plain(some, prefix=f"{number}-"))
        for number, some in enumerate(usable)
    ]
    given = {"workers": 4, "batch_size": 8, "epochs": 3, "warmup": 0}
    arguments = Arguments(**(given | command))
    evidence = Evidence("full", shards)
    reader = OpenClip33(arguments.options(OpenClip33))
    judged = [judge(evidence, reader)]
    found = (forecast(evidence, reader, arguments),)
    return Context(evidence, [reader], judged, arguments=arguments, forecasts=found)


def fixes(context):
    return {
        each.code: each.repair
        for each in try_settings(run_rules(context, ["P3"])[0], context)
        if each.repair
    }


def after(usable, command, flags):
    changes = {
        name.removeprefix("--").replace("-", "_"): int(value[0]) if value else True
        for name, *value in flags_with_values(flags)
    }
    return context_of(usable, **(command | changes))


def errors(context):
    return {each.code for each in run_rules(context, ["P3"])[0] if each.severity == "error"}


def test_fewer_workers_for_too_few_shards_are_so_few_that_each_fills_its_batches():
    command = {"workers": 11, "batch_size": 60, "train_num_samples": 200}
    assert fixes(context_of([50] * 4, **command))["P303"].flags == ("--workers", "2")


def test_each_fix_holds_what_the_fixes_of_the_other_errors_need():
    found = fixes(context_of([50] * 4, workers=11, batch_size=60))
    assert found["P303"].flags == found["P322"].flags
    assert flags_with_values(found["P303"].flags) == [
        ("--train-num-samples", "200"),
        ("--workers", "2"),
    ]
    assert found["P303"].note == "train with --train-num-samples 200 --workers 2"


def test_a_fix_behind_which_another_error_waits_holds_the_fix_of_that_one_too():
    # Ends at the number of samples, before it would starve.
    context = context_of([50] * 4, workers=4, batch_size=64)
    assert errors(context) == {"P322"}
    assert flags_with_values(fixes(context)["P322"].flags) == [
        ("--train-num-samples", "200"),
        ("--workers", "2"),
    ]


def test_the_setting_for_a_warning_is_that_of_the_command_without_the_errors():
    command = {
        "workers": 4,
        "batch_size": 64,
        "train_num_samples": 300,
        "warmup": 10_000,
        "epochs": 9,
    }
    context = context_of([50] * 4, **command)
    found = fixes(context)
    steps = after([50] * 4, command, found["P302"].flags).forecasts[0].total_steps
    assert steps != context.forecasts[0].total_steps  # with fewer workers an epoch is shorter
    assert found["P314"].flags == (*found["P302"].flags, "--warmup", str(steps // 20))


def test_a_set_that_is_smaller_than_a_batch_gets_one_of_its_size():
    command = {"workers": 4, "batch_size": 64, "train_num_samples": 32}
    context = context_of([16, 16], **command)
    assert errors(context) == {"P303"}
    (setting,) = advise_training(context)
    assert setting.flags == ("--workers", "1", "--batch-size", "32")
    assert errors(after([16, 16], command, setting.flags)) == set()


def test_a_batch_of_less_than_half_is_not_offered():
    context = context_of(
        [100, 3, 100], workers=3, batch_size=64, train_num_samples=200, world_size=1, seed=1
    )
    assert [each.flags for each in advise_training(context)] == [
        ("--workers", "2"),
        ("--dataset-resampled",),
    ]


@pytest.mark.sample(10)
@pytest.mark.parametrize("seed", range(40))
def test_a_printed_setting_leads_to_no_other_refusal(seed):
    rng = random.Random(seed)
    usable = [rng.choice([1, 5, 30, 80]) for _ in range(rng.randrange(1, 12))]
    command = {
        "workers": rng.choice([0, 1, 2, 4, 11]),
        "batch_size": rng.choice([1, 8, 40, 64]),
        "world_size": rng.choice([1, 1, 2, 3]),
        "train_num_samples": rng.choice([None, sum(usable)]),
        "accum_freq": rng.choice([1, 1, 50]),
        "warmup": rng.choice([0, 10_000]),
        "seed": rng.randrange(3),
    }
    context = context_of(usable, **command)
    found = fixes(context)
    offered = [(code, repair.flags) for code, repair in found.items()]
    offered += [("advice", each.flags) for each in advise_training(context)]
    if errors(context) and max(usable) >= 64 and len(usable) >= command["world_size"]:
        assert offered
    for code, flags in offered:
        left = errors(after(usable, command, flags))
        assert left <= errors(context) - set(found), (code, flags, left)


def test_flags_are_changed_in_place_of_those_that_are_there():
    training = ["--train-data", "a.tar", "--workers=4", "--batch-size", "8"]
    assert with_flags(training, ["--workers", "2", "--batch-size", "4", "--dataset-resampled"]) == (
        ["--train-data", "a.tar", "--workers", "2", "--batch-size", "4", "--dataset-resampled"]
    )
    assert merged_flags(["--workers", "2", "--dataset-resampled"], ["--workers", "1"]) == (
        "--workers",
        "1",
        "--dataset-resampled",
    )


@pytest.mark.parametrize(
    ("usable", "says"),
    [
        (
            [100, 100],
            ["with OpenCLIP's default of 4 workers, 2 shards are too few: train with --workers 2"],
        ),
        (
            [300],
            ["with OpenCLIP's default of 4 workers, 1 shard is too few: train with --workers 1"],
        ),
        (
            [64, 64, 64, 64, 20],
            [
                (
                    "with OpenCLIP's default of 4 workers and batches of 64, a worker gets too few samples: "
                    "train with --workers 2"
                )
            ],
        ),
        ([64] * 4, []),
        (
            [10],
            [
                (
                    "with OpenCLIP's default of 4 workers, 1 shard is too few, and 10 samples for a batch of 64: "
                    "train with --workers 1 --batch-size 10"
                )
            ],
        ),
        (
            [10] * 4,
            [
                (
                    "with OpenCLIP's default of 4 workers and batches of 64, a worker gets too few samples: "
                    "train with --workers 1 --batch-size 40"
                )
            ],
        ),
    ],
)
def test_without_a_command_the_setting_is_named_where_the_defaults_of_openclip_fail(
    usable: list[int], says: list[str]
):
    evidence, reader = context_of(usable).evidence, OpenClip33()
    advice = advise_defaults(
        Context(evidence, [reader], [judge(evidence, reader)]), evidence.shards
    )
    assert [each.action for each in advice] == says
    for each in advice:
        defaults = {"workers": 4, "batch_size": 64, "train_num_samples": sum(usable), "epochs": 32}
        assert errors(context_of(usable, **defaults)) & {"P302", "P303"}
        assert not errors(after(usable, defaults, each.flags)) & {"P302", "P303"}
