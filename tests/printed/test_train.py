"""Every command that a look at the shards of ``wdsflow train`` prints works as it is pasted."""

import re
import shlex
from importlib.util import find_spec

import pytest

from tests.printed.pasted import commands, paste, run
from tests.printed.sets import JSON, PICTURE, SETS, write
from tests.validate.rules.build import pairs, samples
from wdsflow import FeedOptions
from wdsflow.training.launch.preflight import preflight

pytestmark = pytest.mark.skipif(find_spec("open_clip_train") is None, reason="needs OpenCLIP")

WORDS = [
    "--train-data",
    "s/{0..1}.tar",
    "--train-num-samples",
    "8",
    "--batch-size",
    "4",
    "--workers",
    "2",
]
CASES = {
    "captions in json, not in all": [SETS["captions in some of the json"][0]] * 2,
    "captions in another field": [SETS["captions in another field"][0]] * 2,
    "images in another field": [SETS["images in another field"][0]] * 2,
    "both in other fields": [SETS["both in other fields"][0]] * 2,
    "a worker that fills no batch": [pairs(9), pairs(2, start=20)],
    "macOS twins": [SETS["macOS twins"][0]] * 2,
    "some samples without a caption": [SETS["some samples without a caption"][0]] * 2,
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("contents", CASES.values(), ids=CASES)
def test_what_a_look_at_the_shards_advises_works(tmp_path, contents):
    write(tmp_path, contents)
    shown = run(["train", "--dry-run", "--", *WORDS], tmp_path)
    advised = commands(shown.errors)
    assert advised or commands(shown.out) or shown.status == 0
    asked = shlex.join(["wdsflow", "train", "--dry-run", "--", *WORDS])
    for command in dict.fromkeys([*advised, *commands(shown.out)]):
        assert command != asked
        # What a dry run advises starts no training.
        assert "wdsflow train" not in command or "wdsflow train --dry-run " in command
        fixes = command in advised and "wdsflow train" in command
        assert paste(command, tmp_path).status in ((0,) if fixes else (0, 1)), command


def test_no_repair_leaves_out_what_the_feed_leaves_out_by_itself(tmp_path):
    write(tmp_path, SETS["captions in some json, others in txt"])
    words = [
        "--train-data",
        "s/*.tar",
        "--train-num-samples",
        "8",
        "--batch-size",
        "4",
        "--workers",
        "1",
    ]
    report = run(
        ["train", "--dry-run", "--caption", "txt|json:description", "--", *words], tmp_path
    ).out
    assert "up to 14 of 16 samples reach a batch" in report
    assert "wdsflow repair" not in report


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "odd", ["--image png", "--caption foo:x", "--caption foo", "--image png --caption foo"]
)
def test_where_only_the_command_names_other_fields_its_options_are_the_fix_and_no_repair(
    tmp_path, odd
):
    write(tmp_path, [pairs(9, json=JSON), pairs(9, start=20, json=JSON)])
    asked = (
        f"wdsflow train --dry-run {odd} -- --train-data 's/{{0..1}}.tar' --workers 1 --batch-size 4"
    )
    report = paste(asked, tmp_path).out
    assert "wdsflow repair" not in report
    fix = commands(report.partition("What to do")[2])[0]  # of all odd names
    assert "MAY TRAIN  up to 18 of 18" in paste(fix, tmp_path).out, fix


def test_the_report_on_what_was_found_is_that_of_this_run(tmp_path, monkeypatch):
    """The printed command repeats the options of this run.

    With another source of captions it would report other findings.
    """
    lacking = samples(1, start=90, jpg=PICTURE)  # in each shard: one finding for both
    write(tmp_path, [[*SETS["captions in some of the json"][0], *lacking]] * 2)
    monkeypatch.chdir(tmp_path)
    looked = preflight(WORDS, FeedOptions(caption="json:description", max_pixels=1_000_000))
    assert looked is not None
    found = re.search(r"56 samples, 54 usable, [^;]*; (.*), see: (.*)$", looked.lines[0])
    assert found is not None, looked.lines
    report = paste(found[2], tmp_path)
    assert report.status == 0
    assert report.out.startswith("wdsflow's feed  MAY TRAIN  up to 54 of 56 samples reach a batch")
    assert f"Found: {found[1]}\n" in report.out
