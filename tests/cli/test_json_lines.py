"""A file of JSON lines in place of shards: every command names the one that makes shards of it."""

import gzip
import shlex
import tarfile
from pathlib import Path

import pytest

from tests.filtering.commands import pasted, run
from tests.shards.archives import JPEG
from wdsflow.shards.urls import JsonLinesGiven, NoShards, expand

LINES = b'{"text": "<__dj__image> a cat <|__dj__eoc|>", "images": ["1.jpg"]}\n'
WHERE = ("--where", "min_side >= 200")
COMMANDS = {
    "filter": ("-o", "out", *WHERE),
    "measure": ("-o", "out", "--scores", "min_side"),
    "graft": ("-o", "out", "--from", "a b.jsonl", "--on", "key", "--set", "txt=text"),
    "validate": (),
    "inspect": (),
    "repair": ("-o", "out"),
    "reshard": ("-o", "out", "--samples", 10),
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a b.jsonl").write_bytes(LINES)
    (tmp_path / "scores").mkdir()
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_for_shards_names_the_one_that_makes_them(command: str, here: Path):
    done = run(command, "a b.jsonl", *COMMANDS[command])
    assert done.status == 2
    assert "a b.jsonl is a file of JSON lines; shards are tars" in done.err
    (printed,) = done.commands
    assert shlex.split(printed) == ["wdsflow", "pack", "a b.jsonl", "-o", "shards"]
    assert sorted(path.name for path in here.iterdir()) == ["a b.jsonl", "scores"]


def test_the_command_packs_the_lines(here: Path):
    (here / "1.jpg").write_bytes(JPEG)
    (printed,) = run("validate", "a b.jsonl").commands
    assert pasted(printed).status == 0
    with tarfile.open("shards/00000.tar") as tar:
        assert tar.getnames() == ["00000001.jpg", "00000001.txt", "00000001.json"]


@pytest.mark.parametrize(
    "pattern",
    ["*.jsonl", "*", "a[b].jsonl::a b.jsonl", "@list.txt", "file:a b.jsonl", "{a b,c}.jsonl"],
)
def test_however_they_are_named(pattern: str, here: Path):
    (here / "list.txt").write_text("a b.jsonl\n")
    (here / "a[b].jsonl").write_bytes(LINES)
    (here / "c.jsonl").write_bytes(LINES)
    with pytest.raises(JsonLinesGiven):
        expand([pattern], allow_pipe=True)


def test_packed_and_remote_ones_too(here: Path):
    (here / "a.jsonl.gz").write_bytes(gzip.compress(LINES))
    for url in ("a.jsonl.gz", "s3://bucket/a.JSONL.zst", "https://host/a.jsonl?download=true"):
        with pytest.raises(JsonLinesGiven) as refused:
            expand([url], allow_pipe=True)
        assert f"wdsflow pack {shlex.quote(url)} -o shards" in refused.value.hint


def test_other_files_are_left_to_the_commands(here: Path):
    (here / "folder.jsonl").mkdir()
    (here / "folder.jsonl" / "0.tar").touch()
    for url in ("none.jsonl", "pipe:cat a.jsonl", "a.jsonl.tar", "https://host/a.tar?name=a.jsonl"):
        assert expand([url], allow_pipe=True).urls == [url]
    assert expand(["folder.jsonl"], allow_pipe=True).urls == ["folder.jsonl/0.tar"]
    with pytest.raises(NoShards, match="no shards match"):
        expand(["none/*.jsonl"], allow_pipe=True)
