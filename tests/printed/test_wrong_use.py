"""Misuse of the commands on shards exits with status 2 and a helpful message.

The message states what happened, to what, and a command that works.
"""

from pathlib import Path

import pytest
from fsspec import AbstractFileSystem, register_implementation
from fsspec.registry import known_implementations

from tests.printed.pasted import commands, paste, run
from tests.reshaping.sets import entries, write_set
from tests.shards.archives import write_tar

GRAFT = ["--from", "t.csv", "--on", "key", "--set", "txt=caption"]
WRITING = {"reshard": [], "graft": GRAFT, "repair": [], "index": ["--sizes"]}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    write_set(tmp_path / "shards", (3, 3))
    write_tar(tmp_path / "shards" / "0.tar", entries(["a", "b"]))
    (tmp_path / "t.csv").write_text("key,caption\na,new\n")
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "0.tar").write_text("no tar\n" * 100)
    return tmp_path


@pytest.mark.sample(2)
@pytest.mark.parametrize("command", WRITING)
@pytest.mark.parametrize("wrong", ["shardz", "shards/1.tar"])
def test_shards_that_do_not_exist_are_refused_with_those_of_nearly_that_name(
    place: Path, command: str, wrong: str
):
    done = run([command, wrong, "-o", "out", *WRITING[command]], place)
    assert done.status == 2
    assert f"wdsflow: no shards match '{wrong}'\n  no such file: {place / wrong}\n" in done.errors
    assert not (place / "out").exists()
    (again,) = commands(done.errors)
    assert paste(again, place).status == 0


def test_one_of_several_patterns_without_shards_is_answered_with_its_nearest(place: Path):
    done = run(["validate", "shards/0.tar", "shardz/*.tar"], place)
    assert (done.status, done.out) == (2, "")
    assert done.errors.splitlines() == [
        "wdsflow: no shards match 'shardz/*.tar'",
        "  no such folder: shardz",
        "  did you mean shards/*.tar?",
    ]


def test_keys_that_would_be_repeated_are_refused_with_the_command_that_renames_them(place: Path):
    words = ["reshard", "shards/0.tar", "shards/0.tar", "-o", "out", "--repeated-keys", "refuse"]
    done = run([*words, "--shards", "1"], place)
    assert (done.status, done.out) == (2, "")
    told = "2 samples would share a shard with another sample of the same key, in 1 shard"
    again = "wdsflow reshard shards/0.tar shards/0.tar -o out --shards 1"
    assert done.errors == f"wdsflow: {told}\n  give them other keys: {again}\n"
    assert not (place / "out").exists()


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("shards/*.tr", "'shards/*.tar'"),
        ("shards/{0..1}.tr", "'shards/{0..1}.tar'"),
        ("shards/{0..1}", "'shards/{0..1}.tar'"),
        ("shards/x*.tar", "shards"),
    ],
)
def test_a_pattern_without_shards_is_answered_with_one_for_all_of_them(
    place: Path, wrong: str, meant: str
):
    write_tar(place / "shards" / "1.tar", entries(["c", "d"]))
    done = run(["inspect", wrong], place)
    assert (done.status, commands(done.errors)) == (2, [f"wdsflow inspect {meant}"])
    assert paste(f"wdsflow inspect {meant}", place).status == 0


@pytest.mark.parametrize("command", [*WRITING, "filter"])
def test_an_output_folder_without_a_name_is_refused(place: Path, command: str):
    before = sorted(place.rglob("*"))
    options = WRITING.get(command, ["--where", "caption_words > 0"])
    done = run([command, "shards", "-o", "", *options], place)
    assert done.status == 2
    assert (
        "it is empty: name a folder, or . for this one; is a variable of the shell not set?"
        in done.errors
    )
    assert sorted(place.rglob("*")) == before


@pytest.mark.sample(1)
@pytest.mark.parametrize("command", WRITING)
def test_shards_that_cannot_be_read_are_refused_with_the_command_that_says_why(
    place: Path, command: str
):
    done = run([command, "text", "-o", "out", *WRITING[command]], place)
    assert done.status == 2
    assert "not a tar: looks like text\n  see what is wrong: wdsflow validate text" in done.errors
    assert [paste(each, place).status for each in commands(done.errors)] == [2]


MISSING = {
    "graft": [
        "URL...: ",
        "-o, --output OUT: ",
        "--from TABLE: ",
        "--on WHAT: ",
        "--set FIELD=COLUMN: ",
    ],
    "graft shards --on key": ["-o, --output OUT: ", "--from TABLE: ", "--set FIELD=COLUMN: "],
    "reshard": ["URL...: ", "-o, --output OUT: "],
    "repair -o out": ["URL...: "],
    "pack --samples 3": ["TABLE...: ", "-o, --output OUT: "],
    "index --sizes": ["URL...: "],
    "status": ["OUT: "],
}


@pytest.mark.parametrize("typed", MISSING)
def test_all_that_is_missing_is_reported_at_once(place: Path, typed: str):
    done = run(typed.split(), place)
    assert (done.status, done.out) == (2, "")
    lines = done.errors.partition("Error: missing:\n")[2].splitlines()
    assert len(lines) == len(MISSING[typed])
    for line, start in zip(lines, MISSING[typed], strict=True):
        assert line.startswith(f"  {start}")
    assert run([*typed.split(), "--help"], place).status == 0


@pytest.mark.parametrize(
    ("command", "wrong", "right"),
    [("graft", "--table", "--from"), ("graft", "--fields", "--set"), ("pack", "--out", "--output")],
)
def test_an_option_by_its_name_in_python_is_answered_with_its_name_here(
    place: Path, command, wrong, right
):
    done = run([command, "shards", wrong, "x"], place)
    assert done.status == 2
    assert f"no such option: {wrong}; did you mean {right}?" in done.errors


REFUSED = "pipe:cat shards/0.tar would run a shell command"


@pytest.mark.sample(1)
@pytest.mark.parametrize("command", ["reshard", "graft"])
def test_the_output_of_a_command_is_refused_with_the_command_that_allows_it(
    place: Path, command: str
):
    options = ["pipe:cat shards/0.tar", "-o", "out", *WRITING[command]]
    done = run([command, *options], place)
    assert (done.status, REFUSED in done.errors) == (2, True), done.errors
    (again,) = commands(done.errors)
    assert paste(again, place).status == 0
    write_tar(place / "1.tar", entries(["c", "d"]))
    (place / "t.csv").write_text("key,caption\na,new\nc,new\n")
    done = run([command, "1.tar", *options[:2], "some", *options[3:]], place)
    assert (done.status, REFUSED in done.errors) == (2, True), done.errors
    (again,) = commands(done.errors)
    assert paste(again, place).status == 0


@pytest.mark.sample(1)
@pytest.mark.parametrize("command", ["reshard", "graft"])
def test_the_command_for_a_damaged_output_of_a_command_may_run_it(place: Path, command: str):
    data = (place / "shards/0.tar").read_bytes()
    (place / "cut.tar").write_bytes(data[:1600])
    done = run([command, "pipe:cat cut.tar", "-o", "out", "--allow-pipe", *WRITING[command]], place)
    looks = [each for each in commands(done.out + done.errors) if "pipe:" in each]
    assert looks
    for each in looks:
        assert each.endswith("--allow-pipe")
        assert "allow that with" not in "".join(paste(each, place)[1:])


def test_a_table_without_a_name_is_refused(place: Path):
    done = run(["graft", "shards", "-o", "out", "--from", "", *GRAFT[2:]], place)
    assert done.status == 2
    assert "the table has no name: is a variable of the shell not set?" in done.errors


LOOKING = {"validate": [], "inspect": [], "train": ["--dry-run"], "reshard": ["-o", "out"]}
MEANT = {
    "even": "evenn",
    "raw/00000.tar": "raw/00000",
    "'even/{00000..00001}.tar'": "even/{00000-00001}.tar",
    "@list.txt": "list.txt",
}


@pytest.mark.sample(4)
@pytest.mark.parametrize("command", LOOKING)
@pytest.mark.parametrize("meant", MEANT)
def test_a_mistyped_url_is_answered_with_the_command_that_was_meant(
    tmp_path: Path, command: str, meant: str
):
    write_set(tmp_path / "even", (3, 3))
    write_set(tmp_path / "raw", (3,))
    (tmp_path / "list.txt").write_text("# two of them\neven/00000.tar\nraw/00000.tar\n")
    training = command == "train"
    data = ["--", "--train-data", MEANT[meant], "--batch-size", "1", "--workers", "1"]
    done = run([command, *LOOKING[command], *(data if training else [MEANT[meant]])], tmp_path)
    assert done.status == 2
    (again,) = (each for each in commands(done.errors) if each.startswith("wdsflow"))
    assert again.split()[-1 if training or command != "reshard" else 2] == meant
    after = paste(again, tmp_path)
    assert "nothing could be read" not in after.errors, after
    assert after.status != 2, after


def test_a_text_that_lists_no_shards_is_called_no_list(tmp_path: Path):
    (tmp_path / "notes.txt").write_text("a note\nabout 0.tar\n")
    done = run(["validate", "notes.txt"], tmp_path)
    assert "not a tar: looks like text" in done.errors
    assert "@" not in done.errors


@pytest.mark.sample(1)
@pytest.mark.parametrize("command", ["train", "validate"])
def test_an_option_of_open_clip_train_before_the_dashes_is_put_after_them(
    tmp_path: Path, command: str
):
    write_set(tmp_path / "even", (3, 3))
    own = ["--dry-run"] if command == "train" else ["--max-loss", "0.5"]
    typed = ["--train-data", "even/{00000..00001}.tar", *own, "--workers=1", "--batch-size", "1"]
    done = run([command, *typed, "--", "--epochs", "2"], tmp_path)
    assert done.status == 2
    assert "--train-data is an option of open_clip_train: put it after --" in done.errors
    (again,) = commands(done.errors.partition("Error: ")[2])
    words = [
        "--train-data",
        "'even/{00000..00001}.tar'",
        "--workers=1",
        "--batch-size",
        "1",
        "--epochs",
        "2",
    ]
    assert again == f"wdsflow {command} {' '.join(own)} -- {' '.join(words)}"
    assert "Forecast" in paste(again, tmp_path).out


@pytest.mark.sample(1)
@pytest.mark.parametrize("command", ["train", "validate"])
@pytest.mark.parametrize(
    "wrong", [["--train-dat", "even/{00000..00001}.tar"], ["--trian-data=even/{00000..00001}.tar"]]
)
def test_a_mistyped_option_of_open_clip_train_before_the_dashes_is_put_after_them(
    tmp_path: Path, command: str, wrong: list[str]
):
    write_set(tmp_path / "even", (3, 3))
    own = ["--dry-run"] if command == "train" else ["--max-loss", "0.5"]
    done = run([command, *wrong, *own, "--workers", "1", "--", "--batch-size", "1"], tmp_path)
    assert done.status == 2
    assert (
        f"no such option: {wrong[0].partition('=')[0]}; did you mean --train-data, after --?"
        in done.errors
    )
    (again,) = commands(done.errors.partition("Error: ")[2])
    assert "Forecast" in paste(again, tmp_path).out
    own_typo = run([command, "--trian-where", "x", "--", "--batch-size", "1"], tmp_path)
    assert "after --" not in own_typo.errors.partition("Error: ")[2]


def test_shards_before_the_dashes_are_named_after_them(tmp_path: Path):
    write_set(tmp_path / "even", (3, 3))
    typed = [
        "train",
        "even/{00000..00001}.tar",
        "--dry-run",
        "--",
        "--workers",
        "1",
        "--batch-size",
        "1",
    ]
    done = run(typed, tmp_path)
    assert done.status == 2
    assert "shards are named after --, by --train-data" in done.errors
    (again,) = commands(done.errors.partition("Error: ")[2])
    assert "Forecast" in paste(again, tmp_path).out
    expanded = run(["train", "even/00000.tar", "even/00001.tar", "--", "--jobs", "1"], tmp_path)
    assert "put a pattern in quotes" in expanded.errors


def test_an_option_of_wdsflow_after_the_dashes_is_put_before_them(tmp_path: Path):
    done = run(["train", "--", "--train-data", "x.tar", "--dry-run"], tmp_path)
    assert done.status == 2
    assert "put --dry-run before --" in done.errors


@pytest.mark.parametrize("command", ["train", "validate"])
def test_a_mistyped_option_after_the_dashes_is_answered_with_the_nearest(
    tmp_path: Path, command: str
):
    for wrong in (["--batchsize", "4"], ["--batchsize=4"]):
        done = run([command, "--", "--train-data", "x.tar", *wrong], tmp_path)
        assert done.status == 2
        assert "did you mean --batch-size?" in done.errors
        assert len(done.errors.splitlines()) == 1  # not the 60 lines of open_clip_train's usage


@pytest.mark.parametrize(
    ("command", "after"), [("train", " -- ARGS..."), ("validate", " [-- ARGS...]")]
)
def test_the_usage_shows_what_follows_the_dashes(tmp_path: Path, command: str, after: str):
    assert run([command, "--help"], tmp_path).out.splitlines()[0].endswith(after)


def test_a_store_without_credentials_says_so(tmp_path: Path):
    """s3fs raises this before it asks the server; the text is botocore's."""

    class NoCredentialsError(Exception):
        pass

    class Store(AbstractFileSystem):  # type: ignore[misc]
        protocol = "locked"

        def info(self, *_: object, **__: object) -> object:
            raise NoCredentialsError("Unable to locate credentials")

        _open = info

    register_implementation("locked", Store, clobber=True)
    for words in (
        ["validate"],
        ["inspect"],
        ["repair", "-o", "out"],
        ["train", "--dry-run", "--", "--train-data"],
    ):
        done = run([*words, "locked://bucket/0.tar"], tmp_path)
        assert done.status == 2
        assert "Unable to locate credentials: set credentials, or FSSPEC_S3=" in done.errors, words


def test_a_url_whose_library_is_missing_prints_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    text = "Install huggingface_hub to access HfFileSystem"  # fsspec's, where that is not installed
    known = {"class": "no_such_library.FileSystem", "err": text}
    monkeypatch.setitem(known_implementations, "odd", known)
    done = run(["validate", "odd://datasets/x/0.tar"], tmp_path)
    assert done.status == 2
    assert commands(done.errors)[-1].endswith("pip install huggingface_hub")
