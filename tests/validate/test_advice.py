"""Advice is kept: what it promises is what comes out when it is followed."""

import importlib
import json
import shlex

import pytest

from tests.validate.openclip import evidence_of, plain
from tests.validate.rules.build import jpeg, pairs, samples, tar
from wdsflow.cli.main import main
from wdsflow.validate.advice import advise
from wdsflow.validate.arguments import Arguments
from wdsflow.validate.check import check
from wdsflow.validate.consumers import CONSUMERS
from wdsflow.validate.evidence import Evidence
from wdsflow.validate.forecast import forecast
from wdsflow.validate.rules.base import Context
from wdsflow.validate.verdict import judge

JSON = json.dumps({"url": "https://x.org/a.jpg", "description": "a brown dog in the snow"}).encode()
EMPTY = json.dumps({"url": "https://x.org/a.jpg", "description": None}).encode()
PICTURE = jpeg()


def doubled(members):
    return [pair for name, data in members for pair in ((f"d/._{name}", b"\0" * 16), (f"d/{name}", data))]


SETS = {
    "captions in json": [samples(20, jpg=PICTURE, json=JSON)],
    "captions in some of the json": [
        [*samples(20, jpg=PICTURE, json=JSON), *samples(7, start=50, jpg=PICTURE, json=EMPTY)]
    ],
    "captions in another field": [samples(9, jpg=PICTURE, caption=b"a dog"), pairs(4, start=40)],
    "images in another field": [samples(9, img=PICTURE, txt=b"a dog")],
    "both in other fields": [samples(9, **{"input.jpg": PICTURE, "output.txt": b"a dog"})],
    "a field that drops samples": [pairs(12, id=b"not a number")],
    "macOS twins": [doubled(pairs(8))],
    "dotted names": [
        [(f"photo {n}.{n} (x).{end}", data) for n in range(6) for end, data in (("jpg", PICTURE), ("txt", b"a dog"))]
    ],
    "interleaved": [sorted(pairs(10), key=lambda member: member[0][-3:])],
    "json and macOS twins": [doubled(samples(8, jpg=PICTURE, json=JSON))],
    "json and a field that drops samples": [samples(8, jpg=PICTURE, json=JSON, id=b"x")],
    "a second archive": [tar(pairs(9)) + tar(pairs(4, start=700))],
    "a damaged header": [tar(pairs(5))[: 3584 * 2] + b"\xff" * 512 + tar(pairs(9))[3584 * 2 + 512 :]],
    "json with a name that needs quoting": [
        samples(5, jpg=PICTURE, json=json.dumps({"the caption's": "a brown dog"}).encode())
    ],
}


def write(folder, contents):
    folder.mkdir()
    for number, members in enumerate(contents):
        (folder / f"{number}.tar").write_bytes(members if isinstance(members, bytes) else tar(members))


def follow(command):
    """Run a command that was advised."""
    words = shlex.split(command)
    assert words[0] == "wdsflow"
    with pytest.raises(SystemExit) as ended:
        main(words[1:])
    assert ended.value.code in (0, 1)  # 1: something was damaged


@pytest.mark.parametrize("contents", SETS.values(), ids=SETS)
def test_a_repair_brings_back_as_many_samples_as_was_promised(tmp_path, monkeypatch, contents, capsys):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "s", contents)
    report = check("s/*.tar", ["open-clip-3.3"], level="full", jobs=1)
    repairs = [each for each in report.advice if each.command.startswith("wdsflow repair")]
    assert repairs
    for number, advice in enumerate(repairs):
        follow(advice.command.replace("-o repaired", f"-o repaired{number}"))
        after = check(f"repaired{number}/*.tar", ["open-clip-3.3"], level="full", jobs=1)
        gained = after.verdicts[0].usable - report.verdicts[0].usable
        if "damage" in advice.text:  # up to: the sample at the damage is gone
            assert advice.regains - 1 <= gained <= advice.regains
        else:
            assert gained == advice.regains, advice.text
            assert f"{after.verdicts[0].usable:,} of " in advice.text
    best = max(repairs, key=lambda each: each.regains)
    assert report.advice[0].regains == best.regains


@pytest.mark.parametrize(
    "name",
    [
        "captions in json",
        "captions in some of the json",
        "captions in another field",
        "images in another field",
        "both in other fields",
    ],
)
def test_a_flag_of_openclip_4_brings_back_as_many_samples_as_was_promised(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "s", SETS[name])
    report = check("s/*.tar", ["open-clip-4"], level="full", jobs=1)
    flags = [each for each in report.advice if each.command.startswith("--")]
    for advice in flags:
        after = check("s/*.tar", ["open-clip-4"], level="full", jobs=1, arguments=shlex.split(advice.command))
        assert after.verdicts[0].usable - report.verdicts[0].usable == advice.regains
    assert bool(flags) == (name != "both in other fields")  # there one flag alone helps nothing


def test_flags_of_openclip_4_are_no_commands_for_those_who_do_not_have_it(tmp_path, monkeypatch):
    module = importlib.import_module("wdsflow.validate.check")  # the package has a function of that name
    monkeypatch.setattr(module, "versions", lambda: {"open_clip_torch": "3.3.0"})
    write(tmp_path / "s", SETS["captions in json"])
    report = check(tmp_path / "s", ["open-clip-3.3"], jobs=1)
    (remark,) = (each for each in report.advice if "--json-text-key description" in each.text)
    assert remark.command == ""
    assert remark.text.endswith("20 of 20 samples would pass (from OpenCLIP 4 on)")


def test_the_stage_for_an_own_pipeline_does_what_is_promised(tmp_path):
    wds = pytest.importorskip("webdataset")
    write(tmp_path / "s", [SETS["captions in some of the json"][0]])
    report = check(tmp_path / "s", ["open-clip-3.3"], jobs=1)
    (advice,) = (each for each in report.advice if each.command.startswith("wds.map("))
    stage = eval(advice.command, {"wds": wds, "json": json})
    found = list(stage([{"__key__": "0", "json": JSON}, {"__key__": "1", "json": EMPTY}]))
    assert [sample["txt"] for sample in found] == [b"a brown dog in the snow", b""]
    assert advice.regains == 20


def test_sound_shards_need_no_advice(tmp_path):
    write(tmp_path / "s", [pairs(10)])
    assert check(tmp_path / "s", ["open-clip-3.3"], jobs=1).advice == []


def training(usable, **changes):
    shards = [evidence_of(f"s/{number}.tar", plain(some, prefix=f"{number}-")) for number, some in enumerate(usable)]
    given = {"train_num_samples": 100, "workers": 4, "batch_size": 8, "epochs": 3, "warmup": 0}
    command = Arguments(**(given | changes))
    evidence = Evidence("full", shards)
    reader = CONSUMERS["open-clip-3.3"](command.options("open-clip-3.3"))
    context = Context(evidence, [reader], [judge(evidence, reader)], arguments=command)
    context.forecast = forecast(evidence, reader, command)
    return advise(context)


def test_settings_that_keep_workers_from_starving_are_advised():
    commands = [each.command for each in training([5] * 8, workers=8)]
    assert commands[0].startswith("--workers ")
    assert commands[1] == "--batch-size 5"
    assert commands[2] == "--dataset-resampled"
    assert all(each.regains == 40 for each in training([5] * 8, workers=8))


def test_fewer_workers_are_advised_where_there_are_too_few_shards():
    assert [each.command for each in training([30, 30])] == ["--workers 2", "--dataset-resampled"]


def test_a_smaller_accumulation_is_advised_where_no_step_is_taken():
    assert [each.command for each in training([30] * 4, accum_freq=99)] == ["--accum-freq 16"]


def test_a_command_that_runs_needs_no_advice():
    assert training([30] * 4) == []


def test_the_right_json_field_is_advised_where_another_was_asked_for(tmp_path):
    write(tmp_path / "s", SETS["captions in json"])
    asked = ["--json-text-key", "caption"]
    report = check(
        tmp_path / "s", ["open-clip-4"], level="full", jobs=1, arguments=[*asked, "--train-num-samples", "9"]
    )
    (advice,) = (each for each in report.advice if each.command.startswith("--json-text-key"))
    assert (advice.command, advice.regains) == ("--json-text-key description", 20)
