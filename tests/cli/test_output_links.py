"""An output that is a dangling link.

Each command reports it and what to do, and writes nothing through it.
"""

import os
from pathlib import Path

import pytest

from tests.filtering.commands import pasted, run
from tests.reshaping.sets import entries
from tests.shards.archives import write_tar

COMMANDS = {
    "reshard": (),
    "repair": (),
    "graft": ("--from", "t.csv", "--on", "key", "--set", "txt=caption"),
    "filter": ("--where", "caption_words >= 0", "--jobs", "0"),
    "index": ("--sizes",),
}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_tar(Path("a.tar"), entries(["1", "2", "3"]))
    Path("t.csv").write_text("key,caption\n1,new\n")


@pytest.mark.sample(1)
@pytest.mark.parametrize("out", ["link", "link/below"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_folder_that_is_a_link_to_nothing_is_refused_with_commands(command: str, out: str):
    os.symlink("no where", "link")
    done = run(command, "a.tar", "-o", out, *COMMANDS[command])
    assert done.status == 2
    assert (
        "wdsflow: link is a link that leads nowhere: choose another folder, or create it: mkdir -p '"
        in done.err
    )
    assert not os.path.exists("no where")
    assert pasted(done.commands[-1]).status == 0


@pytest.mark.sample(2)
@pytest.mark.parametrize("command", ["reshard", "repair", "graft", "filter"])
def test_a_shard_that_is_a_link_to_nothing_is_not_replaced(command: str):
    name = Path("out/00000.tar" if command == "reshard" else "out/a.tar")
    name.parent.mkdir()
    name.symlink_to("nothing.tar")
    done = run(command, "a.tar", "-o", "out", *COMMANDS[command])
    assert done.status == 2
    assert f"wdsflow: {name} exists already" in done.err
    assert name.is_symlink()
    assert pasted(done.commands[-1]).status == 0


def test_a_link_to_itself_is_refused_without_a_command_that_could_not_work():
    os.symlink("loop", "loop")
    done = run("reshard", "a.tar", "-o", "loop")
    assert done.status == 2
    assert "wdsflow: loop is a link that leads nowhere: choose another folder\n" in done.err
