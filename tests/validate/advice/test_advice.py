"""Advice: what is offered to whom. That promises are kept is tested in tests/printed."""

import importlib
import shlex
from pathlib import Path

import pytest

from tests.printed.sets import JSON, PICTURE, SETS, write
from tests.validate.openclip import evidence_of, plain
from tests.validate.rules.build import pairs, samples, tar
from wdsflow import check
from wdsflow.readers import OpenClip33
from wdsflow.readers.open_clip.arguments import Arguments
from wdsflow.scan.evidence import Evidence, ScanOptions
from wdsflow.scan.scan_pool import scan_shards
from wdsflow.validate import Report
from wdsflow.validate.advice.advice import advise
from wdsflow.validate.advice.repair_forecast import RepairForecast
from wdsflow.validate.finding import Advice, gain_text
from wdsflow.validate.forecast.forecast import forecast
from wdsflow.validate.rules.kit.base import Context
from wdsflow.validate.verdicts.judge import judge


def about_samples(report: Report) -> list[Advice]:
    """Return the advice of a report without the line on OpenCLIP's default of 4 workers."""
    return [
        advice
        for advice in report.advice
        if not advice.action.startswith("with OpenCLIP's default")
    ]


def test_nothing_is_promised_by_a_number_of_zero():
    nothing = Advice(0, "leave out x", "timm", "timm", usable=0, now=0, samples=9)
    assert gain_text([nothing]) == ""
    assert nothing.text == "leave out x"


def test_a_finding_agrees_with_the_verdict_that_differing_fields_end_the_run(tmp_path):
    entries = [
        (f"{n:03d}.{end}", data)
        for n in range(9)
        for end, data in (("jpg", PICTURE), (("cap", "txt")[n % 2], b"a"))
    ]
    write(tmp_path, [entries])
    report = check(tmp_path / "s", ["datasets"], jobs=1)
    assert report.verdicts[0].outcome == "crashes"
    (finding,) = (each for each in report.findings if each.code == "F103")
    assert finding.message.endswith("; Hugging Face datasets ends with an exception")
    assert finding.severity == "error"


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "name",
    [
        "captions in json",
        "captions in some of the json",
        "captions in another field",
        "images in another field",
    ],
)
def test_a_flag_of_openclip_4_brings_back_as_many_samples_as_was_promised(
    tmp_path, monkeypatch, name
):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, SETS[name])
    report = check("s/*.tar", ["open-clip-4"], level="full", jobs=1)
    flags = [each for each in about_samples(report) if each.flags]
    assert flags
    for advice in flags:
        assert advice.command == ""  # no training command was given
        arguments = [
            *advice.flags,
            "--train-num-samples",
            "9",
            "--train-data",
            "s/{0..1}.tar",
            "--workers",
            "1",
        ]
        after = check("s/*.tar", ["open-clip-4"], level="full", jobs=1, arguments=arguments)
        assert after.verdicts[0].usable == advice.usable


def test_flags_of_openclip_4_are_advised_only_to_those_whose_shards_are_judged_for_it(
    tmp_path, monkeypatch
):
    module = importlib.import_module("wdsflow.validate.chosen_readers")
    monkeypatch.setattr(module, "versions", lambda: {"open_clip_torch": "4.0.0"})
    write(tmp_path, SETS["captions in json"])
    for names in (["open-clip-3.3"], ["open-clip-3.3", "open-clip-4"]):
        report = check(tmp_path / "s", names, level="full", jobs=1)
        flags = [each for each in about_samples(report) if each.flags]
        assert [(each.reader, each.now) for each in flags] == [
            (name, 0) for name in names if name == "open-clip-4"
        ]


def test_a_flag_that_would_lose_samples_is_not_advised(tmp_path):
    """With --json-text-key, samples whose json lacks the name are dropped.

    The json decides even if the sample has another caption.
    """
    write(
        tmp_path,
        [samples(30, jpg=PICTURE, txt=b"a red cat", json=b'{"description": "a red cat"}')] * 2,
    )
    (tmp_path / "s" / "0.tar").write_bytes(
        tar(
            [
                *samples(30, jpg=PICTURE, txt=b"a red cat", json=b"{}"),
                *samples(1, start=70, jpg=PICTURE),
            ]
        )
    )
    for name in ("open-clip-3.3", "open-clip-4"):
        report = check(tmp_path / "s", [name], level="full", jobs=1)
        assert report.verdicts[0].usable < report.verdicts[0].samples
        assert [each.text for each in about_samples(report) if each.flags] == []
        assert all(each.usable is None or each.usable > each.now for each in report.advice)


def test_the_flag_is_judged_again_by_a_command_where_a_training_command_was_given(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, SETS["captions in json"])
    words = [
        "--train-data",
        "s/0.tar",
        "--json-text-key=caption",
        "--workers",
        "1",
        "--train-num-samples",
        "9",
    ]
    report = check("s/0.tar", ["open-clip-4"], level="full", jobs=1, arguments=words)
    (advice,) = (each for each in report.advice if each.flags)
    assert advice.command == (
        "wdsflow validate --for open-clip-4 --level full -- --train-data s/0.tar --workers 1 --train-num-samples 9 "
        "--json-text-key description"
    )
    after = check(
        "s/0.tar", ["open-clip-4"], level="full", jobs=1, arguments=shlex.split(advice.command)[7:]
    )
    assert after.verdicts[0].usable == advice.usable == 20


@pytest.mark.sample(1)
@pytest.mark.parametrize("odd", [("--text-key", "foo", "txt"), ("--image-key", "png", "jpg")])
def test_where_a_key_of_openclip_4_names_a_field_that_is_not_there_the_usual_key_is_the_fix(
    tmp_path, monkeypatch, odd
):
    """No repair is advised.

    It would rename a field to its own name, or write captions that already exist.
    """
    monkeypatch.chdir(tmp_path)
    write(tmp_path, [pairs(9, json=JSON)])
    flag, name, usual = odd
    words = [
        "--train-data",
        "s/0.tar",
        "--workers",
        "1",
        "--train-num-samples",
        "9",
        "--batch-size",
        "4",
        flag,
        name,
    ]
    (finding,) = (
        each
        for each in check("s/0.tar", ["open-clip-4"], jobs=1, arguments=words).findings
        if each.code == "F101"
    )
    assert finding.repair is not None
    assert finding.repair.command.endswith(f"{flag} {usual}")
    after = check(
        "s/0.tar",
        ["open-clip-4"],
        jobs=1,
        arguments=shlex.split(finding.repair.command.partition(" -- ")[2]),
    )
    assert after.verdicts[0].usable == 9


def test_no_repair_renames_a_field_to_the_name_that_it_has_in_a_part_of_the_samples(tmp_path):
    write(tmp_path, [[*samples(9, png=PICTURE, txt=b"a dog"), *pairs(3, start=20)]])
    words = [
        "--train-data",
        "s/0.tar",
        "--workers",
        "1",
        "--train-num-samples",
        "9",
        "--image-key",
        "png",
    ]
    found = check(tmp_path / "s", ["open-clip-4"], jobs=1, arguments=words).findings
    assert [each.repair for each in found if each.code == "F103"] == [None]


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("name", "fixes", "after"),
    [
        (
            "captions in json, and some samples without an image",
            ["--caption json:description"],
            ["20 of 23"],
        ),
        ("some samples without a caption", [], []),
        ("captions in some json, others in txt", ["--caption json:description"], ["14 of 16"]),
        (
            "json and a field that drops samples",
            ["--caption json:description --rename-bad id=id_raw"],
            ["8 of 8"],
        ),
    ],
)
def test_one_command_has_all_that_loses_nothing(tmp_path, monkeypatch, name, fixes, after):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, SETS[name])
    advice = [
        each
        for each in check("s/*.tar", ["open-clip-3.3"], level="full", jobs=1).advice
        if each.command
    ]
    assert [each.command for each in advice] == [
        f"wdsflow repair 's/*.tar' -o repaired {fix}" for fix in fixes
    ]
    assert [f"{each.usable} of {each.samples}" for each in advice] == after


def test_what_leaves_samples_out_is_a_second_command_with_its_price(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, SETS["captions in some of the json"])
    losing = next(
        each
        for each in check("s/*.tar", ["webdataset-1"], level="full", jobs=1).advice
        if not each.safe
    )
    assert losing.command.endswith(" --caption json:description --drop-bad")
    assert losing.action.endswith("leave out samples that do not train, 7 in all")
    assert not losing.safe
    assert (losing.usable, losing.samples) == (20, 27)


def test_a_repair_for_one_reader_alone_is_named_with_its_price_for_the_others(
    tmp_path, monkeypatch
):
    """Samples without a caption end webdataset 1.x, and train with timm."""
    monkeypatch.chdir(tmp_path)
    write(
        tmp_path,
        [
            [
                *samples(10, jpg=PICTURE, cls=b"1", txt=b"a cat"),
                *samples(6, start=20, jpg=PICTURE, cls=b"1"),
            ]
        ],
    )
    report = check("s/*.tar", ["timm", "webdataset-1"], level="full", jobs=1)
    (advice,) = report.advice
    assert advice.action == (
        "leave out samples that do not train, 6 in all, for webdataset 1.x alone, "
        "although timm 1.0 then gets 10 samples (now 16)"
    )
    assert (advice.usable, advice.samples, advice.safe) == (10, 16, False)
    assert advice.command == "wdsflow repair 's/*.tar' -o repaired --drop-bad"


def test_a_small_set_that_needs_a_repair_gets_settings_for_its_output(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, [[*pairs(4), *samples(5, start=20, jfif=PICTURE, txt=b"a cat")]])
    report = check("s/*.tar", ["open-clip-3.3"], level="full", jobs=1)
    assert [each.flags for each in report.advice] == [(), ("--workers", "1", "--batch-size", "9")]


def test_where_no_repair_helps_the_reason_and_what_to_do_at_the_source_are_named(tmp_path):
    write(tmp_path, SETS["some samples without a caption"])
    (advice,) = about_samples(check(tmp_path / "s", ["open-clip-3.3"], level="full", jobs=1))
    assert advice.text == (
        "no repair brings OpenCLIP 3.3.0 more samples (2 of 16 samples: no caption field; they have jpg): "
        "write captions for them, or join them from a table: wdsflow graft --help"
    )


def test_sound_shards_need_no_advice(tmp_path):
    write(tmp_path, [pairs(10)])
    assert about_samples(check(tmp_path / "s", ["open-clip-3.3"], jobs=1)) == []


def test_a_packed_shard_is_unpacked_to_know_what_a_repair_brings(tmp_path):
    import gzip

    write(tmp_path, SETS["interleaved"])
    path = tmp_path / "s" / "0.tar"
    Path(f"{path}.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    (advice,) = about_samples(check(tmp_path / "s", ["open-clip-3.3"], level="full", jobs=1))
    assert advice.text == (
        "regroup the members of each sample and write plain tars: "
        "10 of 10 samples would reach a batch in OpenCLIP 3.3.0 (now 0)"
    )


def test_no_repair_is_advised_for_packed_shards_that_train(tmp_path):
    import gzip

    write(tmp_path, [pairs(9)])
    path = tmp_path / "s" / "0.tar"
    Path(f"{path}.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    assert about_samples(check(tmp_path / "s", ["open-clip-3.3"], jobs=1)) == []


def training(usable, **changes):
    shards = [
        evidence_of(f"s/{number}.tar", plain(some, prefix=f"{number}-"))
        for number, some in enumerate(usable)
    ]
    given = {"train_num_samples": 100, "workers": 4, "batch_size": 8, "epochs": 3, "warmup": 0}
    command = Arguments(**(given | changes))
    evidence = Evidence("full", shards)
    reader = OpenClip33(command.options(OpenClip33))
    found = (forecast(evidence, reader, command),)
    context = Context(
        evidence, [reader], [judge(evidence, reader)], arguments=command, forecasts=found
    )
    return advise(context, RepairForecast(evidence, [reader], ScanOptions("full"), scan_shards))


def test_settings_that_keep_workers_from_starving_are_advised():
    flags = [each.flags for each in training([5] * 8, workers=8)]
    assert flags[0][0] == "--workers"
    assert flags[1:] == [("--batch-size", "5"), ("--dataset-resampled",)]
    assert all(each.regains == 40 for each in training([5] * 8, workers=8))


def test_fewer_workers_are_advised_where_there_are_too_few_shards():
    assert [each.flags for each in training([30, 30])] == [
        ("--workers", "2"),
        ("--dataset-resampled",),
    ]


def test_a_smaller_accumulation_is_advised_where_no_step_is_taken():
    assert [each.flags for each in training([30] * 4, accum_freq=99)] == [("--accum-freq", "16")]


def test_a_command_that_runs_needs_no_advice():
    assert training([30] * 4) == []
