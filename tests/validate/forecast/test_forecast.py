"""The forecast without OpenCLIP at hand."""

import json
import os
import random
from dataclasses import replace

import pytest

from tests.validate.openclip import Sample, evidence_of, plain
from wdsflow.readers import READERS, Options
from wdsflow.readers.open_clip.arguments import Arguments
from wdsflow.readers.open_clip.versions import OpenClip4, OpenClip33, epoch_length
from wdsflow.scan.evidence import Evidence
from wdsflow.validate.forecast.forecast import forecast
from wdsflow.validate.forecast.forecast_text import as_dict, sentences
from wdsflow.validate.forecast.named_shards import named_shards
from wdsflow.validate.forecast.resources import image_size, most_in_buffer
from wdsflow.validate.forecast.worker_passes import ShardPasses, worker_passes
from wdsflow.validate.forecast.working_settings import working_settings
from wdsflow.validate.verdicts.reader_pass import run_pass


def shards(*usable, others=0):
    return Evidence(
        "full",
        [
            evidence_of(f"s/{number}.tar", plain(some, others, f"{number}-"))
            for number, some in enumerate(usable)
        ],
    )


def command(**changes):
    given = {"train_num_samples": 1000, "workers": 2, "batch_size": 4, "epochs": 3, "warmup": 0}
    return Arguments(**(given | changes))


def test_a_pass_over_several_shards_is_that_of_the_reader():
    rng = random.Random(3)
    contents = [
        [Sample(str(rng.randint(0, 3)), "no caption") for _ in range(rng.randint(0, 3))]
        for _ in range(30)
    ]
    for number, samples in enumerate(contents):
        samples += [Sample(str(rng.randint(0, 3))) for _ in range(number % 3)]
    evidence = [evidence_of(f"{number}.tar", samples) for number, samples in enumerate(contents)]
    known = ShardPasses(OpenClip33(), evidence)
    for _ in range(200):
        some = rng.sample(range(30), rng.randint(0, 8))
        real = run_pass(OpenClip33(), [evidence[index] for index in some])
        assert (known.pass_over(some).usable, known.pass_over(some).formed) == (
            real.usable,
            real.formed,
        )


@pytest.mark.parametrize(
    ("samples", "batch", "ranks", "workers", "length"),
    [
        (1000, 256, 1, 8, 2048),
        (50_000, 512, 8, 6, 73_728),
        (5000, 512, 8, 8, 32_768),
        (100, 10, 1, 0, 100),
    ],
)
def test_an_epoch_is_rounded_up_as_measured(samples, batch, ranks, workers, length):
    assert epoch_length(samples, batch, ranks, workers).samples == length


def test_a_starved_worker_is_the_proof_of_a_stall():
    found = forecast(shards(100, 3), OpenClip33(), command(seed=1))
    assert str(found.stalled[0]) == (
        "rank 0 worker 1 gets 0 batches (3 usable samples in 1 shard, batch size 4): training hangs at epoch 0"
    )
    assert found.batches_before_stall == 1
    assert found.exact
    assert sentences(found)[0].startswith("Stalls: rank 0 worker 1 gets 0 batches")


def test_a_stall_in_a_later_epoch_is_found():
    evidence = shards(*[1, 30] * 4)
    for seed in range(50):
        found = forecast(evidence, OpenClip33(), command(seed=seed, epochs=20, workers=4))
        if found.stalled and found.stalled[0].epoch > 0:
            epoch = found.stalled[0].epoch
            assert found.epochs_checked == epoch + 1
            known = ShardPasses(OpenClip33(), evidence.shards)
            poor = [
                sum(
                    not each.batches
                    for each in worker_passes(known, command(seed=seed, workers=4), number)
                )
                for number in range(epoch + 1)
            ]
            assert poor == [0] * epoch + [len(found.stalled)]
            return
    raise AssertionError("no seed gave such a set")


def test_remedies_work_and_are_the_largest_that_do():
    evidence, given = shards(*[5] * 12), command(workers=6, batch_size=12, epochs=5)
    assert forecast(evidence, OpenClip33(), given).stalled
    settings = working_settings(evidence, OpenClip33(), given, usable=60)
    assert [*settings] == [("--workers", "4"), ("--batch-size", "10"), ("--dataset-resampled",)]
    workers, batch = 4, 10
    for good in (replace(given, workers=workers), replace(given, batch_size=batch)):
        assert not forecast(evidence, OpenClip33(), good).stalled
    for bad in (replace(given, workers=workers + 1), replace(given, batch_size=batch + 1)):
        assert forecast(evidence, OpenClip33(), bad).stalled


def test_too_few_shards_crash_and_without_workers_stall():
    few = forecast(shards(50, 50), OpenClip33(), command(workers=3))
    assert few.crash.startswith("AssertionError: number of shards must be >= total workers: 2 < 3")
    none = forecast(shards(50, 50), OpenClip33(), command(workers=0, world_size=3))
    assert [(each.rank, each.shards) for each in none.stalled] == [(2, 0)]


def test_shares_tell_how_often_samples_are_used():
    found = forecast(shards(40, 80), OpenClip33(), command(train_num_samples=80, seed=1))
    assert (found.poorest.usable, found.richest.usable) == (40, 80)
    assert found.seen == (1.0, 0.5)
    assert found.unseen == 40


def test_steps_count_whole_accumulations():
    found = forecast(
        shards(100, 100), OpenClip33(), command(accum_freq=3, train_num_samples=80, epochs=5)
    )
    assert (found.length.batches, found.steps, found.total_steps) == (20, 6, 30)
    never = forecast(shards(100, 100), OpenClip33(), command(accum_freq=21, train_num_samples=80))
    assert never.steps == 0
    assert any("the optimizer never steps" in line for line in sentences(never))


def test_a_warm_up_beyond_the_end_is_said():
    found = forecast(shards(100, 100), OpenClip33(), command(warmup=10_000))
    assert any("--warmup 10,000 is longer" in line for line in sentences(found))


def test_resampling_stalls_only_where_nothing_is_usable():
    given = command(dataset_resampled=True, workers=4)
    assert not forecast(shards(3, 0), OpenClip33(), given).stalled
    found = forecast(shards(0, 0, others=9), OpenClip33(), given)
    assert "every worker gets 0 batches (0 usable samples in 2 shards" in sentences(found)[0]


@pytest.mark.parametrize("at", [0, 1, 2])
def test_resampling_crashes_at_any_shard_that_may_be_drawn(at):
    # Webdataset raises at the first sample that is complete.
    reader = OpenClip4(Options(text_key="txt; caption"))
    evidence = shards(*(9 if number == at else 0 for number in range(3)), others=5)
    given = command(dataset_resampled=True, workers=1, train_data="s/0.tar::s/1.tar::s/2.tar")
    assert "txt; caption" in forecast(evidence, reader, given).crash

    without = "::".join("0" if number == at else "1" for number in range(3))
    assert (
        forecast(evidence, reader, replace(given, train_data_upsampling_factors=without)).crash
        is None
    )


def test_resampling_draws_as_often_as_a_simulation():
    evidence = shards(10, 20, 30, 0)
    given = command(dataset_resampled=True, train_num_samples=120, workers=1, batch_size=1)
    found = forecast(evidence, OpenClip33(), given).resampled
    assert found.dead_shards == 1
    assert found.draws == pytest.approx(8)
    rng = random.Random(0)
    missed = 0
    for _ in range(3000):
        missed += 4 - len({rng.randrange(4) for _ in range(8)})
    assert found.never_seen == pytest.approx(missed / 3000 / 4, abs=0.01)


def test_upsampling_factors_weigh_the_shards():
    given = command(
        train_data="s/0.tar::s/1.tar",
        dataset_resampled=True,
        train_data_upsampling_factors="0::1",
        workers=1,
    )
    found = forecast(shards(0, 50, others=5), OpenClip33(), given)
    assert (found.resampled.dead_shards, found.stalled) == (0, ())
    assert forecast(shards(50, 0, others=5), OpenClip33(), given).stalled


@pytest.mark.parametrize(("seed", "foreseen"), [(0, True), (1, True), (-1, False)])
def test_who_starves_is_foreseen_unless_the_seed_is_negative(seed, foreseen):
    evidence, given = shards(50, 3), command(seed=seed)
    found = forecast(evidence, OpenClip33(), given)
    assert (found.exact, bool(found.stalled)) == (foreseen, foreseen)
    assert any("negative --seed" in note for note in found.notes) is not foreseen
    settings = [*working_settings(evidence, OpenClip33(), given, usable=0)]
    assert settings == ([("--workers", "1"), ("--batch-size", "3")] if foreseen else [])


@pytest.mark.parametrize(("usable", "starves"), [((3, 3), True), ((4, 4), False), ((4, 0), False)])
def test_with_a_negative_seed_a_worker_starves_only_where_the_best_shards_would_not_do(
    usable, starves
):
    assert bool(forecast(shards(*usable), OpenClip33(), command(seed=-1)).stalled) is starves


def test_a_forecast_is_exact_only_where_contents_were_decoded():
    found = forecast(replace(shards(50, 50), level="headers"), OpenClip33(), command())
    assert not found.exact
    assert found.notes == ("contents were not decoded: --level full makes the counts exact",)


def test_there_is_no_remedy_for_another_reader_or_for_shards_that_are_drawn():
    evidence = shards(50, 3)
    for reader, given in (
        (READERS["webdataset-1"](), command()),
        (OpenClip33(), command(dataset_resampled=True)),
    ):
        assert [*working_settings(evidence, reader, given, usable=0)] == []


def test_shards_of_the_command_that_do_not_exist_count_as_empty():
    evidence = shards(10, 10)
    listed, note, unknown = named_shards(["s/0.tar", "./s/1.tar", "s/2.tar"], evidence)
    assert [shard.samples for shard in listed] == [10, 10, 0]
    assert (note, unknown) == ("", frozenset())
    found = forecast(evidence, OpenClip33(), command(train_data="s/{0..2}.tar", workers=3))
    assert [each.usable for each in found.stalled] == [0]


@pytest.mark.parametrize("where", ["https://host/{}.tar", "pipe:cat {}.tar", "{tmp}/{}.tar"])
def test_shards_of_the_command_that_were_not_scanned_starve_no_worker_for_certain(tmp_path, where):
    """Of a server or a command it is not known what is there; of a file it is."""
    where = where.replace("{tmp}", str(tmp_path))
    (tmp_path / "2.tar").touch()
    scanned = [
        evidence_of(where.format(number), plain(10, prefix=f"{number}-")) for number in range(2)
    ]
    found = forecast(
        Evidence("full", scanned),
        OpenClip33(),
        command(train_data=where.format("{0..2}"), workers=3),
    )
    assert not found.stalled
    assert not found.exact
    assert "1 shard of --train-data not scanned" in found.notes[0]


def test_other_shards_than_those_of_the_command_are_said():
    found = forecast(
        shards(10, 10), OpenClip33(), command(train_data="elsewhere/{0..7}.tar", workers=1)
    )
    assert found.shards == 2
    assert not found.exact
    assert "none of the shards of --train-data was scanned" in found.notes[0]


@pytest.mark.parametrize(
    "changes",
    [
        {"dataset_type": "csv"},
        {"train_data": "x.csv"},
        {"val_data": "v.tar"},
        {"use_naflex": True},
        {"epochs": 0},
    ],
)
def test_a_command_that_reads_no_shards_in_the_known_way_has_no_forecast(changes):
    found = forecast(shards(1), OpenClip33(), command(**changes))
    assert not found.applies
    assert sentences(found)[0].startswith("No forecast: ")


def test_only_openclip_has_a_forecast():
    assert not forecast(shards(1), READERS["webdataset-1"](), command()).applies


def test_an_empty_validation_set_crashes_3_3_and_is_passed_over_by_4():
    given = command(
        val_data="v.tar", train_data="s/{0..1}.tar", val_frequency=2, world_size=1, workers=1
    )
    empty = Evidence("full", [evidence_of("v.tar", plain(0, others=4))])
    old = forecast(shards(9, 9), OpenClip33(), given, validation=empty)
    assert old.validation_crash
    assert old.validation.startswith(
        "none of the 4 samples of --val-data is usable: rank 0 crashes after epoch 1"
    )
    new = forecast(shards(9, 9), OpenClip4(), given, validation=empty)
    assert (new.validation_crash, "reports no figures" in new.validation) == (False, True)
    full = Evidence("full", [evidence_of("v.tar", plain(1))])
    assert forecast(shards(9, 9), OpenClip33(), given, validation=full).validation is None
    missing = f"--val-data: nothing could be read: {os.path.abspath('v.tar')}: no such file: rank 0 crashes"
    assert forecast(shards(9, 9), OpenClip33(), given).validation.startswith(missing)


def test_validation_shards_that_are_used_in_part_only_are_told():
    given = command(val_data="v.tar", train_data="s/{0..1}.tar", workers=2)

    def said(*validation):
        evidence = Evidence("full", list(validation))
        found = forecast(shards(9, 9), OpenClip33(), given, validation=evidence)
        assert not found.validation_crash
        return found.validation

    whole, unread = evidence_of("v/0.tar", plain(20)), evidence_of("v/1.tar", [])
    unread.error = "missing"
    rest = "the figures are those of the rest, silently"
    assert said(evidence_of("v/0.tar", plain(18, others=2))) == (
        f"2 of 20 samples of --val-data are not usable: {rest}"
    )
    assert said(evidence_of("v/0.tar", plain(19, others=1))) is None
    assert said(whole, unread) == (
        f"1 of 2 shards of --val-data cannot be read ({os.path.abspath('v/1.tar')}: no such file): {rest}"
    )


def test_a_crash_in_an_epoch_names_the_worker_that_meets_it():
    reader = OpenClip4(Options(image_key="jpg;png "))
    found = forecast(shards(9, 9), reader, command(seed=1))
    assert found.crash == (
        "epoch 0, rank 0, worker 0: a space in --image-key or --text-key, which webdataset refuses (jpg;png )"
    )
    assert sentences(found)[0].startswith("Crashes: epoch 0, rank 0, worker 0: a space in")


def test_the_shuffle_buffer_gets_as_full_as_webdatasets():
    filters = pytest.importorskip("webdataset.filters")
    for count in (3, 10, 11, 30, 200):
        given: list[int] = []
        held = []

        def source(count=count, given=given, held=held):
            for number in range(count):
                held.append(number + 1 - len(given))
                yield number

        for item in filters._shuffle(source(), 40, 10, random.Random(0)):
            given.append(item)  # noqa: PERF402 -- the source looks at how many were given
        assert most_in_buffer(count, 40, 10) == pytest.approx(max(held), abs=1)


def test_needs_grow_with_workers_batches_and_ranks():
    evidence = shards(*[3000] * 8)
    given = command(
        workers=4, world_size=2, batch_size=256, local_world_size=2, train_num_samples=24_000
    )
    needs = forecast(evidence, OpenClip33(), given).resources
    assert needs.shm_bytes == 2 * 4 * 2 * 256 * (3 * 224 * 224 * 4 + 77 * 8)
    # Buffers hold 2,000 of 3,000 at the most; 200 bytes a sample.
    assert needs.shuffle_bytes == 8 * 2000 * 200
    assert needs.raw_before_first == 1000 + 2 * 256
    half = forecast(evidence, OpenClip33(), replace(given, local_world_size=1)).resources
    assert half.shuffle_bytes * 2 == needs.shuffle_bytes
    drawn = forecast(evidence, OpenClip33(), replace(given, dataset_resampled=True)).resources
    assert drawn.shuffle_bytes == 8 * 5000 * 200


def test_the_image_size_is_that_of_the_model_or_of_the_flag():
    assert image_size(command(force_image_size=(336,))) == (336, 336, True)
    assert image_size(command(force_image_size=(256, 128))) == (256, 128, True)
    assert image_size(command(model="../../etc/passwd")) == (224, 224, False)
    pytest.importorskip("open_clip_train.params")
    assert image_size(command(model="ViT-B-16-plus-240")) == (240, 240, True)
    assert image_size(command(model="hf-hub:someone/some-model")) == (224, 224, False)


def test_the_image_size_of_a_model_in_a_local_folder_is_that_of_its_config(tmp_path):
    model = f"local-dir:{tmp_path}"
    assert image_size(command(model=model)) == (224, 224, False)
    config = tmp_path / "open_clip_config.json"
    config.write_text(json.dumps({"model_cfg": {"vision_cfg": {"image_size": [96, 64]}}}))
    assert image_size(command(model=model)) == (96, 64, True)
    assert image_size(command(model=model, force_image_size=(32,))) == (32, 32, True)
    for broken in ("[1]", '{"model_cfg": 3}', "{", "[" * 100_000):
        config.write_text(broken)
        assert image_size(command(model=model)) == (224, 224, False)


@pytest.mark.parametrize(
    ("fast", "slow", "said"),
    [
        (0.0004, 0.02, "First batch: after less than a second; "),
        (0.4, 7.26, "First batch: after less than a second to 7.3 s; "),
        (30.0, 900.0, "First batch: after 30 s to 15 min; "),
    ],
)
def test_the_time_to_the_first_batch_is_never_after_0_seconds(fast, slow, said):
    found = forecast(shards(100, 100), OpenClip33(), command())
    assert found.resources is not None
    needs = replace(found.resources, first_batch=(fast, slow))
    [line] = [
        line
        for line in sentences(replace(found, resources=needs))
        if line.startswith("First batch")
    ]
    assert line.startswith(said)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"workers": 3},
        {"dataset_resampled": True},
        {"train_num_samples": None},
        {"dataset_type": "csv"},
    ],
)
def test_a_forecast_is_plain_values_and_plain_lines(changes):
    found = forecast(shards(100, 3), OpenClip33(), command(**changes))
    values = json.loads(json.dumps(as_dict(found), allow_nan=False))
    assert values["lines"] == sentences(found) != []
    assert all(line.isprintable() and line.endswith(".") for line in sentences(found))
