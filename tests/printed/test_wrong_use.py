"""Wrong uses of the commands on shards: what happened, to what, and a command that works; the exit status is 2."""

from pathlib import Path

import pytest

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


@pytest.mark.parametrize("command", WRITING)
@pytest.mark.parametrize("wrong", ["shardz", "shards/1.tar"])
def test_shards_that_do_not_exist_are_refused_with_those_of_nearly_that_name(place: Path, command: str, wrong: str):
    done = run([command, wrong, "-o", "out", *WRITING[command]], place)
    assert done.status == 2
    assert f"wdsflow: no shards match '{wrong}'\n  no such file: {place / wrong}\n" in done.errors
    assert not (place / "out").exists()
    (again,) = commands(done.errors)
    assert paste(again, place).status == 0


@pytest.mark.parametrize("command", [*WRITING, "filter"])
def test_an_output_folder_without_a_name_is_refused(place: Path, command: str):
    before = sorted(place.rglob("*"))
    options = WRITING.get(command, ["--where", "caption_words > 0"])
    done = run([command, "shards", "-o", "", *options], place)
    assert done.status == 2
    assert "it is empty: name a folder, or . for this one; is a variable of the shell not set?" in done.errors
    assert sorted(place.rglob("*")) == before


@pytest.mark.parametrize("command", WRITING)
def test_shards_that_cannot_be_read_are_refused_with_the_command_that_says_why(place: Path, command: str):
    done = run([command, "text", "-o", "out", *WRITING[command]], place)
    assert done.status == 2
    assert "not a tar: looks like text\n  see what is wrong: wdsflow validate text" in done.errors
    assert [paste(each, place).status for each in commands(done.errors)] == [2]


@pytest.mark.parametrize(
    ("sets", "said", "after"),
    [
        (["shards", "shardz"], "no shards match 'shardz'", 0),
        (["none.tar", "shards"], "no such file", None),
        (["", "shards"], "the pattern is empty", None),
        (["shards", "text"], "nothing of B could be read: text/0.tar: not a tar: looks like text", 2),
    ],
)
def test_a_set_that_cannot_be_read_at_all_is_no_difference(place: Path, sets: list[str], said: str, after: int | None):
    (place / "_wdsflow").mkdir()
    done = run(["diff", *sets], place)
    assert done.status == 2
    assert said in done.errors
    assert "only in" not in done.out
    if after is not None:
        assert [paste(each, place).status for each in commands(done.errors)] == [after]


def test_a_table_without_a_name_is_refused(place: Path):
    done = run(["graft", "shards", "-o", "out", "--from", "", *GRAFT[2:]], place)
    assert done.status == 2
    assert "the table has no name: is a variable of the shell not set?" in done.errors


@pytest.mark.parametrize(
    "words", [["--graft", "t.csv"], ["--on", "key"], [*GRAFT[2:4], "--set", "txt", "--graft", "t.csv"]]
)
def test_half_a_join_of_serve_is_refused_with_a_command(place: Path, words: list[str]):
    done = run(["serve", "shards", *words], place)
    assert done.status == 2
    (command,) = commands(done.errors)
    assert command in {
        "wdsflow serve shards --graft t.csv --on key --set txt=caption",
        "wdsflow serve shards",
        "wdsflow serve --help",
    }


def test_a_command_that_does_not_fail_is_looked_at_for_a_hang(place: Path):
    done = run(["bisect", "shards", "--", "true", "{shards}"], place)
    assert done.status == 1
    (command,) = commands(done.errors)
    assert command == "wdsflow bisect shards --hang-after 60 -- true '{shards}'"
    assert paste(command, place).status == 1
