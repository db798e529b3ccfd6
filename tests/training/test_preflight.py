"""What is said about shards before training, and which runs are refused."""

import re
import shlex
import subprocess
import sys
import tarfile

import pytest
from support import faults

from tests.cli import shards
from wdsflow import FeedOptions
from wdsflow.cli.main import main
from wdsflow.example_shards import draw
from wdsflow.training.launch.preflight import preflight
from wdsflow.validate.forecast.forecast_text import sentences
from wdsflow.validate.report.finding_groups import next_steps

IMAGE = shards.jpeg()


def look(data, *more, world_size=1, **options):
    return preflight(
        ["--train-data", str(data), *more], FeedOptions(**options), world_size=world_size
    )


def write(folder, samples, count=2):
    """Shards of the same samples: a list of {field: contents}."""
    for number in range(count):
        members = {
            f"{number}{index:03d}.{field}": data
            for index, fields in enumerate(samples)
            for field, data in fields.items()
        }
        shards.write(folder / f"{number}.tar", members)
    return f"{folder}/{{0..{count - 1}}}.tar"


def test_sound_shards_get_one_line(tmp_path):
    found = look(shards.with_txt(tmp_path), "--workers", "2", "--batch-size", "8")
    assert not found.refused
    assert len(found.lines) == 1
    assert found.lines[0].startswith("preflight: 2 shards, 16 samples, 16 usable, ")


def test_findings_that_do_not_stop_training_are_counted(tmp_path):
    samples = [{"jpg": IMAGE, "txt": b"a cat"}] * 20 + [{"jpg": IMAGE}]
    found = look(write(tmp_path, samples), "--workers", "1", "--batch-size", "8")
    assert not found.refused
    assert "42 samples, 40 usable" in found.lines[0]
    assert (
        f"see: wdsflow train --dry-run -- --train-data '{tmp_path}/{{0..1}}.tar'" in found.lines[0]
    )


def test_captions_in_json_are_refused_with_the_flag_that_finds_them(tmp_path):
    found = look(shards.with_json(tmp_path), "--workers", "2", "--batch-size", "8", k=3.0)
    text = "\n".join(found.lines)
    assert found.refused
    assert "F101" in text
    assert "wdsflow train --caption json:caption --k 3 -- --train-data " in text
    assert "wdsflow train --no-preflight --k 3 -- --train-data " in text
    assert "hangs" not in text


@pytest.mark.deep
def test_with_that_flag_they_train(tmp_path):
    found = look(
        shards.with_json(tmp_path), "--workers", "2", "--batch-size", "8", caption="json:caption"
    )
    assert not found.refused
    assert "16 usable" in found.lines[0]


@pytest.mark.deep
def test_evaluation_that_would_find_nothing_is_refused_before_training(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    train, val = shards.with_json(tmp_path / "a"), shards.with_txt(tmp_path / "b")
    found = look(
        train, "--val-data", str(val), "--workers", "2", "--batch-size", "8", caption="json:caption"
    )
    assert found.refused
    assert "preflight of --val-data" in found.lines[1]
    assert "--caption 'json:caption|txt'" in "\n".join(found.lines)
    both = look(
        train,
        "--val-data",
        str(val),
        "--workers",
        "2",
        "--batch-size",
        "8",
        caption="json:caption|txt",
    )
    assert not both.refused
    assert len(both.lines) == 2


@pytest.mark.sample(1)
@pytest.mark.parametrize("caption", ["json:captoin", "txt|json:captoin;alt.text"])
def test_a_name_that_no_json_has_is_refused(tmp_path, caption):
    found = look(shards.with_json(tmp_path), "--workers", "2", "--batch-size", "8", caption=caption)
    text = "\n".join(found.lines)
    assert found.refused
    assert "no json of 16 checked samples has captoin" in text
    assert "--caption json:caption " in text


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "json",
    [b'{"meta": {"alt": "a cat"}}', b'{"alt": ["a cat", "a dog"]}', b'{"meta.alt": "a cat"}'],
)
def test_nested_names_and_lists_may_hold_captions(tmp_path, json):
    data = write(tmp_path, [{"jpg": IMAGE, "json": json}] * 8)
    caption = "json:meta.alt" if b"meta" in json else "json:alt"
    assert not look(data, "--workers", "2", "--batch-size", "8", caption=caption).refused


def test_captions_and_images_under_other_names_are_found(tmp_path):
    data = write(tmp_path, [{"img": IMAGE, "caption": b"a cat"}] * 8)
    text = "\n".join(look(data, "--workers", "2", "--batch-size", "8").lines)
    assert (
        "images may be in img, captions may be in caption: wdsflow train --caption caption --image img -- "
        in text
    )
    found = look(data, "--workers", "2", "--batch-size", "8", caption="caption", image="img")
    assert not found.refused


def test_only_what_is_missing_is_called_missing(tmp_path):
    found = look(
        shards.with_txt(tmp_path), "--workers", "2", "--batch-size", "8", caption="json:caption"
    )
    text = "\n".join(found.lines)
    assert found.refused
    assert "no sample has a json field" in text
    assert "jpg, png, jpeg or webp" not in text


def test_a_worker_that_never_fills_a_batch_is_refused(tmp_path):
    data = shards.with_txt(tmp_path)
    found = look(data, "--workers", "2", "--batch-size", "9")
    text = "\n".join(found.lines)
    assert found.refused
    assert "P302" in text
    assert "--batch-size 9 --workers 1" in text
    assert "wdsflow train --schedule balanced -- --train-data " in text
    assert not look(data, "--workers", "1", "--batch-size", "9").refused


@pytest.mark.deep
def test_fewer_shards_than_workers_are_refused_but_for_the_balanced_schedule(tmp_path):
    data = shards.with_txt(tmp_path)
    found = look(data, "--workers", "2", "--batch-size", "2", world_size=2)
    assert found.refused
    assert "2 shards for 4 workers" in "\n".join(found.lines)
    assert not look(
        data, "--workers", "2", "--batch-size", "2", world_size=2, schedule="balanced"
    ).refused


@pytest.mark.deep
def test_a_sample_that_goes_over_the_end_of_a_shard_is_none(tmp_path):
    """OpenCLIP would join the two halves; the feed never does."""
    shards.write(tmp_path / "0.tar", {"a.jpg": IMAGE})
    shards.write(tmp_path / "1.tar", {"a.txt": b"a cat"})
    found = look(f"{tmp_path}/{{0..1}}.tar", "--workers", "1", "--batch-size", "1")
    assert found.refused
    assert "0 usable" in found.lines[0]


REFUSALS = {
    "no caption": (shards.with_json, [], None, "no sample has a txt field"),
    "a name in no json": (
        shards.with_json,
        [],
        "json:captoin",
        "no json of 16 checked samples has captoin",
    ),
    "too few shards": (shards.with_txt, ["--workers", "3"], None, "2 shards for 3 workers"),
    "a starved worker": (
        shards.with_txt,
        ["--batch-size", "9"],
        None,
        "rank 0 worker 0 gets 0 batches",
    ),
    "no evaluation": (
        shards.with_txt,
        ["--val-data", "nowhere.tar"],
        None,
        "nowhere.tar: no such file",
    ),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize(("make", "more", "caption", "why"), REFUSALS.values(), ids=REFUSALS)
def test_the_report_on_a_refused_run_begins_with_the_refusal(tmp_path, make, more, caption, why):
    """It neither trains, loses, hangs nor crashes: it does not start."""
    words = ["--workers", "2", "--batch-size", "8", "--train-num-samples", "16", *more]
    found = look(make(tmp_path), *words, caption=caption)
    text = " ".join(str(found.reports[0]).split())
    assert found.refused
    assert re.match(
        rf"wdsflow's feed REFUSED .*{re.escape(why)}.* training does not start ", text
    ), text
    assert not re.search("TRAINS|LOSES|hang|Stalls|Crashes|Runs|silent|for ever|in batches", text)


FAULTS = {
    "dotted names": faults.dotted_names,
    "interleaved": faults.interleaved,
    "captions in json": faults.captions_in_json,
    "twins of macOS": faults.macos_twins,
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("make", FAULTS.values(), ids=FAULTS)
def test_a_refusal_prints_the_fixes_of_the_dry_run_and_they_help(
    tmp_path, monkeypatch, capsys, make
):
    monkeypatch.chdir(tmp_path)
    make(tmp_path / "set", draw(12))
    words = ["--train-data", "set/{000..003}.tar", "--workers", "2", "--batch-size", "2"]
    refused, dry = (preflight(words, dry_run=dry_run) for dry_run in (False, True))
    told, *fixes = (line for line in dry.lines if line.startswith("  "))
    # A fix from a dry run is a dry run: it does not start a training.
    of_run = [line for line in refused.lines if line.startswith("  ")]
    assert [
        line.replace("wdsflow train --dry-run ", "wdsflow train ") for line in (told, *fixes)
    ] == of_run[:-2]
    assert all("--dry-run" in line for line in dry.lines if "wdsflow train" in line)
    assert ["full report: wdsflow train --dry-run " in line for line in of_run[-2:]] == [
        True,
        False,
    ]
    assert "to train without this check: wdsflow train --no-preflight " in of_run[-1]
    for step in next_steps(dry.reports[0]):
        assert f"  {step.line}: {step.command}" in refused.lines
    assert not any("an epoch of 1 sample" in each.message for each in dry.reports[0].findings)
    program, *rest = shlex.split(told[told.index("wdsflow ") :])
    assert program == "wdsflow"
    if rest[0] == "repair":
        with pytest.raises(SystemExit) as ended:
            main(rest)
        assert not ended.value.code
        words[1] = "repaired/{000..003}.tar"
        assert not preflight(words).refused
    else:
        assert not preflight(
            rest[rest.index("--") + 1 :], FeedOptions(caption=rest[rest.index("--caption") + 1])
        ).refused


@pytest.mark.deep
def test_where_nothing_else_is_known_a_refusal_prints_how_to_look_at_a_sample(tmp_path, capsys):
    data = write(tmp_path, [{"jpg": IMAGE}] * 8)
    [line] = [
        line
        for line in look(data, "--workers", "1", "--batch-size", "4").lines
        if "what a sample holds" in line
    ]
    with pytest.raises(SystemExit) as ended:
        main(shlex.split(line[line.index("wdsflow ") :])[1:])
    assert not ended.value.code
    assert "jpg" in capsys.readouterr().out


@pytest.mark.deep
def test_a_starved_worker_of_damaged_shards_gets_no_repair_that_brings_nothing(tmp_path):
    """What was cut off is lost, and the feed reads the rest as it is."""
    faults.truncated(tmp_path / "set", draw(12))
    words = [
        "--train-data",
        f"{tmp_path}/set/{{000..003}}.tar",
        "--workers",
        "9",
        "--batch-size",
        "2",
    ]
    refused, dry = (preflight(words, dry_run=dry_run) for dry_run in (False, True))
    assert refused.refused
    commands = [step.command for step in next_steps(dry.reports[0])]
    assert commands
    assert not [line for line in (*refused.lines, *commands) if "wdsflow repair " in line]


@pytest.mark.deep
def test_the_forecast_says_where_its_numbers_come_from_and_leaves_out_openclips_workers(tmp_path):
    data = shards.with_txt(tmp_path)

    def lines(*more):
        return "\n".join(sentences(look(data, "--batch-size", "8", *more).reports[0].forecasts[0]))

    counted = lines("--workers", "1", "--epochs", "1")
    assert "Runs: in epoch 0 the only worker gets batches" in counted
    assert "Epoch: 16 samples for the 16 counted by name, 2 batches per rank" in counted
    assert not re.search("requested|Memory|/dev/shm|First batch|--level", counted)
    asked = lines("--workers", "2", "--epochs", "3", "--train-num-samples", "9")
    assert "Runs: in epochs 0 to 2 each of 2 workers gets batches" in asked
    assert "for the 9 requested (--train-num-samples), 2 batches per rank" in asked
    (tmp_path / "sizes.json").write_text('{"0000.tar": 8, "0001.tar": 8}')
    assert "for the 16 listed in sizes.json" in lines("--workers", "2")


def test_the_report_on_a_run_that_starts_tells_that_losses_are_reported(tmp_path):
    data = write(tmp_path, [{"jpg": IMAGE, "txt": b"a cat"}] * 8 + [{"jpg": IMAGE}])
    found = look(data, "--workers", "1", "--batch-size", "8")
    assert not found.refused
    assert "LOSES" in str(found.reports[0])
    assert "it runs, and reports what it leaves out" in str(found.reports[0])


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("caption", "used"),
    [
        ("txt|json:caption", "txt"),
        ("json:caption|txt", "json"),
        ("alt|json:caption|txt", "json"),
        ("txt;alt", None),
    ],
)
def test_of_two_captions_the_one_that_comes_first_is_named(tmp_path, caption, used):
    data = write(tmp_path, [{"jpg": IMAGE, "txt": b"a cat", "json": b'{"caption": "a dog"}'}] * 8)
    found = look(data, "--workers", "1", "--batch-size", "8", caption=caption)
    messages = [finding.message for finding in found.reports[0].findings if finding.code == "F123"]
    assert [message.rpartition(": ")[2] for message in messages] == [
        f"only {used} is used"
    ] * 2 * bool(used)


@pytest.mark.deep
def test_folders_and_globs_are_read_as_the_feed_reads_them(tmp_path):
    shards.with_txt(tmp_path)
    for data in (tmp_path, f"{tmp_path}/*.tar"):
        assert not look(
            data, "--workers", "2", "--batch-size", "8", "--dataset-type", "webdataset"
        ).refused


@pytest.mark.deep
def test_what_lies_behind_damage_may_be_enough(tmp_path):
    shards.with_txt(tmp_path, 1)
    path = tmp_path / "0000.tar"
    with tarfile.open(path) as tar:
        header = tar.getmembers()[4].offset  # behind two samples
    data = bytearray(path.read_bytes())
    data[header + 148 : header + 156] = b"damaged!"
    path.write_bytes(data)
    found = look(path, "--workers", "1", "--batch-size", "4")
    assert not found.refused
    assert "2 usable" in found.lines[0]
    assert not re.search("P302|Fails|Runs", str(found.reports[0]))
    assert look(
        path, "--workers", "2", "--batch-size", "4"
    ).refused  # whatever is there, one worker has no shard


def test_a_pattern_without_shards_is_refused_and_so_are_shards_that_are_not_there(tmp_path):
    for pattern in ("*.tar", "{0..1}.tar"):
        found = look(f"{tmp_path}/{pattern}")
        assert found.refused
        assert found.nothing_read
        assert "no shards match" in found.lines[0]
    found = look(tmp_path / "0.tar")
    assert found.refused
    assert found.nothing_read
    assert found.lines == (f"preflight: nothing could be read: {tmp_path}/0.tar: no such file",)


@pytest.mark.parametrize(
    "argv",
    [
        ["--train-data", "pictures.csv"],
        ["--dataset-type", "synthetic", "--train-num-samples", "8"],
        ["--val-data", "0.tar"],
        ["--batch-size", "many"],
    ],
)
def test_commands_that_read_no_shards_are_let_through(argv):
    assert preflight(argv) is None


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("more", "told", "fixed"),
    [
        (["1::2"], "--train-data-upsampling-factors works with --dataset-resampled only", True),
        (
            ["1::2::3", "--dataset-resampled"],
            "--train-data has 2 sources, --train-data-upsampling-factors 3",
            False,
        ),
    ],
)
def test_upsampling_factors_that_get_data_refuses_are_refused_before(tmp_path, more, told, fixed):
    data = "::".join([str(shards.with_txt(tmp_path))] * 2)
    small = ["--workers", "1", "--batch-size", "2"]
    found = look(data, "--train-data-upsampling-factors", *more, *small)
    assert found.refused
    assert found.lines[0] == f"preflight: {told}"
    assert [line.endswith(" --dataset-resampled") for line in found.lines[1:]] == [True] * fixed
    assert not look(
        data, "--train-data-upsampling-factors", "1::2", "--dataset-resampled", *small
    ).refused


@pytest.mark.deep
def test_names_from_the_data_do_not_reach_the_terminal(tmp_path):
    data = write(
        tmp_path,
        [{"jpg": IMAGE, "json": b'{"a\\u001b[31mb": "a red cat"}', "t\x1b[31mxt": b"a"}] * 4,
    )
    text = "\n".join(look(data, "--workers", "1", "--batch-size", "2").lines)
    assert "\x1b" not in text


IDLE = """
import sys, time
from wdsflow import FeedOptions
from wdsflow.training.launch.preflight_timeout import end_if_idle

options = FeedOptions(stall_after=0.4, argv=("--workers", "1"))
with end_if_idle(options, lambda count, label="": None, lambda text: print(text)) as begin:
    begin(3)("a shard")
    sys.stdout.reconfigure(line_buffering=True)
    time.sleep(60)
"""


def test_a_preflight_that_reads_nothing_ends_with_commands_that_find_the_shard_or_wait() -> None:
    done = subprocess.run([sys.executable, "-c", IDLE], capture_output=True, text=True, check=False)

    assert done.returncode == 1, done.stderr
    assert done.stdout.splitlines() == [
        "preflight: 1 of 3 shards were read, then nothing came for 0.4 s",
        "To fix it:",
        "  see which shard hangs: wdsflow train --no-preflight --stall-after 0.4 -- --workers 1",
        "  if data is slow and does come, wait longer: wdsflow train --stall-after 4 -- --workers 1",
    ]
