"""``wdsflow train --join TABLE``: the check before training, misuse, and a resumed training."""

import importlib.util
import signal
import tarfile
from pathlib import Path

import pytest

from tests.filtering.commands import run
from tests.training.shards import jpeg, write_tar
from tests.training.trainings import command, write_data
from wdsflow import FeedOptions
from wdsflow.shards import short_look
from wdsflow.training.launch.preflight import preflight

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("open_clip_train") is None, reason="needs OpenCLIP"
)
SETS = ("--join", "t.csv", "--join-set", "txt=caption")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Two shards, whose captions are in a table and in json; three samples have no row."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    lines = ["id,caption"]
    for shard in range(2):
        members = []
        for number in range(8):
            key = f"{shard}{number:03d}"
            members.append((f"{key}.jpg", jpeg(number)))
            members.append((f"{key}.json", b'{"alt": "old"}'))
            if number:
                lines.append(f"{key},new {key}")
        write_tar(tmp_path / f"{shard}.tar", members)
    Path("t.csv").write_text("\n".join(lines[:-1]))


def openclip(*more):
    return "--", "--train-data", "{0..1}.tar", "--workers", 1, "--batch-size", 4, *more


def look(*more, dry_run=False, **options):
    given = {"join": "t.csv", "join_on": "key=id", "join_set": {"txt": "caption"}, **options}
    return preflight(
        ["--train-data", "{0..1}.tar", "--workers", "1", "--batch-size", "4", *more],
        FeedOptions(**given),
        dry_run=dry_run,
    )


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"join_set": (), "caption": "join:caption"},
        {"join_set": {"json:new": "caption"}, "caption": "json:new"},
    ],
)
def test_the_check_before_training_counts_what_trains_with_the_table(more):
    found = look(**more)
    assert not found.refused
    assert found.lines[0] == "preflight: 13 of 16 samples have a row of t.csv"
    usable = "16" if "json:new" in str(more) else "13"
    assert found.lines[1].startswith(f"preflight: 2 shards, 16 samples, {usable} usable, ")
    dropped = look(join_drop_unmatched=True, **more)
    assert dropped.lines[1].startswith("preflight: 2 shards, 13 samples, 13 usable, ")


def test_the_check_before_training_refuses_a_join_as_the_feed_does():
    assert (
        look(join_on="key=caption").lines[0] == "preflight: none of 16 samples has a row in t.csv"
    )
    Path("t.csv").write_text("id,caption\n0001,a\n0001,b\n")
    assert look().refused
    assert look().lines[0].endswith("1 sample with several rows of the table each, such as 0001")
    assert look(join_ambiguous="each").lines[0].startswith("preflight: 1 of 16 samples have a row")
    assert look(join="none.csv").nothing_read


def test_the_check_before_training_refuses_rows_that_several_samples_have():
    Path("0.tar").write_bytes(Path("1.tar").read_bytes())
    result = look()
    assert result.refused
    assert "6 rows with several samples each, such as " in result.lines[0]
    assert not look(join_ambiguous="each").refused
    first = look(join_ambiguous="first", join_drop_unmatched=True)
    assert first.lines[0] == "preflight: 6 of 16 samples have a row of t.csv"
    assert first.lines[1] == "preflight: 6 ambiguous samples get no row: --join-ambiguous first"
    assert first.lines[2].startswith("preflight: 2 shards, 6 samples, 6 usable, ")
    assert "12 samples with a row, all of them ambiguous" in look(join_ambiguous="drop").lines[0]


def test_the_check_before_training_finds_captions_of_a_column_in_capitals():
    Path("t.csv").write_text(Path("t.csv").read_text().replace("caption", "TEXT", 1))
    result = look(join_set=(), caption="join:TEXT", join_drop_unmatched=True)
    assert not result.refused
    assert result.lines[1].startswith("preflight: 2 shards, 13 samples, 13 usable, ")
    assert "W013" not in str(result.reports)


def test_rows_may_be_those_of_shards_that_a_short_look_leaves_out(monkeypatch):
    Path("t.csv").write_text("id,caption\n1001,a\n")
    monkeypatch.setitem(short_look._MOST, "file", 1)
    result = look(join_set={"json:new": "caption"}, caption="json:alt")
    assert not result.refused
    assert result.lines[0] == (
        "preflight: none of 8 samples of the checked shards has a row in t.csv; "
        "the feed looks for rows in all shards"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--join", "t.csv"), "the join lacks fields to set"),
        (("--join-set", "txt=caption"), "the join lacks a table"),
        (
            (*SETS, "--join-on", "sha256"),
            "samples cannot be joined on 'sha256' while they are read",
        ),
        ((*SETS, "--join-set", "jpg=caption"), "images stay as they are"),
        ((*SETS, "--caption-probs", "a"), "it must be a number for each place of captions"),
        ((*SETS, "--caption", "txt", "--caption-probs", "1,2"), "2 weights for 1 places"),
        (SETS, "t.csv has no column 'key'\n  it has id, caption"),
    ],
)
def test_wrong_joins_are_refused(words, message):
    done = run("train", *words, "--dry-run", *openclip())
    assert done.status == 2
    assert message in done.err


@pytest.mark.deep
def test_a_training_that_was_killed_resumes_and_another_table_is_refused(tmp_path, drive):
    data = write_data(tmp_path)
    keys = []
    for number in range(4):
        with tarfile.open(tmp_path / f"{number:04d}.tar") as tar:
            keys += [name[:-4] for name in tar.getnames() if name.endswith(".txt")]
    for name in ("a", "b"):
        lines = [f"{key},{name} {key}" for key in keys]
        (tmp_path / f"{name}.csv").write_text("\n".join(["key,caption", *lines]))
    own = ["--status-every", "0", "--checkpoint-every", "3", "--caption", "txt|join:caption"]
    own += ["--caption-probs", "0.5,0.5", "--join"]
    joined, other = [*own, f"{tmp_path}/a.csv"], [*own, f"{tmp_path}/b.csv"]
    runs = [("whole", joined, {}, []), ("broken", joined, {"signal": signal.SIGKILL, "at": 5}, [])]
    runs += [("other", other, {}, ["--resume", "latest"])]
    runs += [("again", joined, {}, ["--resume", "latest"])]
    scenarios = []
    for name, words, end, last in runs:
        training = command(tmp_path, "whole" if name == "whole" else "run", *last)
        scenarios.append({"words": [*words, "--", *training], "name": str(tmp_path / name), **end})
    assert data
    assert drive(scenarios) == ["0", "-9", "1", "0"]
    whole = (tmp_path / "whole.0").read_text().split()
    assert (tmp_path / "again.0").read_text().split() == whole[3:]
    printed = (tmp_path / "other.0.said").read_text()
    assert "join, table: " in printed
    assert "to begin a new run with these samples: wdsflow train " in printed
