"""The line of the README that makes the example shards, and the commands that it prints."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.printed.pasted import commands, paste
from wdsflow.example_shards import draw, write_examples


def make(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    line = [sys.executable, "-m", "wdsflow.example_shards", *words]
    return subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.usefixtures("new_interpreters")
def test_the_line_makes_the_shards_of_the_documentation_and_prints_the_next_command(tmp_path: Path):
    done = make(tmp_path, "shards")
    assert (done.returncode, done.stderr) == (0, "")
    write_examples(tmp_path / "expected", draw(40))
    made, expected = (
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}
        for name in ("shards", "expected")
    )
    assert made == expected
    (command,) = commands(done.stdout)
    judged = paste(command, tmp_path)
    assert judged.status == 1
    assert "STALLS  0 of 40 samples" in judged.out


def test_a_folder_that_exists_stays_as_it_is_and_the_printed_line_works(tmp_path: Path):
    (tmp_path / "shards").mkdir()
    refused = make(tmp_path)
    assert refused.returncode == 2
    assert not list((tmp_path / "shards").iterdir())
    line = refused.stderr.splitlines()[-1].split()
    assert line[:3] == ["python", "-m", "wdsflow.example_shards"]
    assert make(tmp_path, *line[3:]).returncode == 0
    assert len(list((tmp_path / "shards-2").iterdir())) == 4


@pytest.mark.usefixtures("new_interpreters")
def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path):
    (tmp_path / "file").write_bytes(b"")
    refused = make(tmp_path, "file/shards")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == "cannot write file/shards: Not a directory\n"
    assert make(tmp_path, "a", "b").stderr == "usage: python -m wdsflow.example_shards [FOLDER]\n"
