"""Printed commands do what they are printed for when they are pasted.

They are the commands that ``filter``, ``measure``, ``cut`` and ``repair --caption`` print.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.filtering.commands import Done, pasted, run
from tests.filtering.shards import picture, write_shards
from tests.shards.archives import write_tar
from wdsflow.shards.shard_names import IMAGES

ALL = "in/{00000..00003}.tar"
STAGES = "stages: [{rename: {image: jpg}}]\nimage: image\n"


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    """Write shards of several kinds, with names that have a meaning for shells.

    Some shards are valid, others are damaged, or have captions in json. There are ledgers too.
    """
    folder = tmp_path_factory.mktemp("sets")
    write_shards(folder / "in", shards=4, samples=8)
    (folder / "json").mkdir()
    for number in range(2):
        tree = json.dumps(
            {"url": "http://host/x", "description": "what is to be seen here"}
        ).encode()
        members = [
            (f"{key}{ending}", data)
            for key in "abc"
            for ending, data in ((".jpg", picture(40, 40)), (".json", tree))
        ]
        write_tar(folder / "json" / f"{number}.tar", members)
    shutil.copytree(folder / "in", folder / "it's $HOME & more")
    shutil.copytree(folder / "in", folder / "-dashed")
    shutil.copytree(folder / "in", folder / "hurt")
    (folder / "hurt" / "00001.tar").write_bytes(b"<html>404</html>")
    few = [(f"{key}.jpg", picture(40, 40)) for key in "abc"]
    (folder / "few").mkdir()
    write_tar(folder / "few" / "0.tar", [*few, ("d.jpg", picture(40, 40)), ("d.txt", b"a caption")])
    (folder / "stages.yaml").write_text(STAGES)
    (folder / "file").write_text("")
    for number in range(10):
        shutil.copy(folder / "in" / "00000.tar", folder / "hurt" / f"1{number:04d}.tar")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert (
            run(
                "measure", "in", "-o", "scored", "--scores", "min_side,caption_words", "--jobs", 0
            ).status
            == 0
        )
        recipe = (
            "--recipe",
            "stages.yaml",
            "--where",
            "caption_words >= 1",
            "--scores",
            "brightness",
        )
        assert run("filter", "in", "-o", "staged", *recipe, "--jobs", 0).status == 0
    return folder


@pytest.fixture
def here(sets, tmp_path, monkeypatch):
    """The same for each test, to be written to."""
    shutil.copytree(sets, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


FILTER = ("filter", ALL, "-o", "out")
CUT = ("filter", ALL, "-o", "out", "--ledger", "scored")
LARGE = ("--where", "min_side >= 200")
WORDS = ("--where", "caption_words >= 2")
COPIES = ("--where", "min_side >= 100 and not duplicate")


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("words", "status", "commands"),
    [
        # What comes next after a run.
        ((*FILTER, *LARGE), 0, ["wdsflow inspect 'in/{00000..00003}.tar' --sample 5 --ledger out", "wdsflow validate out"]),
        (("filter", "it's $HOME & more", "-o", "a 'b'", *LARGE), 0, ["--sample 5 --ledger 'a '\"'\"'b'\"'\"''", "wdsflow validate 'a '\"'\"'b'\"'\"''"]),
        (("measure", "in", "-o", "out", "--scores", "blur"), 0, ["wdsflow report out", "wdsflow scores --ledger out"]),
        (("measure", "./-dashed", "-o", "out", "--scores", "has('txt')"), 0, ["wdsflow report out", "wdsflow scores --ledger out"]),
        (("filter", "in", "-o", "out"), 2, ["wdsflow filter in -o out --where True"]),
        ((*CUT,), 2, ["--where True"]),
        ((*CUT, "--where", "blur > 1"), 0, ["wdsflow validate out"]),
        ((*CUT, *LARGE), 0, ["wdsflow inspect 'in/{00000..00003}.tar' --sample 5 --ledger out", "wdsflow validate out"]),
        # Little was kept.
        ((*FILTER, "--where", "min_side >= 2000"), 1, ["--where 'min_side >= 2000' --jobs 0 --explain"]),
        ((*CUT, "--where", "min_side >= 2000"), 1, ["--where 'min_side >= "]),
        (("filter", "few", "-o", "out", "--where", "caption_words > 0"), 1, ["wdsflow inspect out/.wdsflow/quarantine/0.tar"]),
        # Some shards could not be read.
        (("filter", "hurt/0000{0..2}.tar", "-o", "out", *LARGE), 1, ["wdsflow validate out"]),
        (("filter", "hurt/0000{0..2}.tar", "-o", "out", *COPIES), 1, ["hurt/00000.tar hurt/00002.tar -o out"]),
        (("filter", "hurt", "-o", "out", *COPIES), 1, ["wdsflow filter @out/.wdsflow/readable.txt -o out"]),
        (("filter", "hurt", "--dry-run", *LARGE), 1, []),
        # Captions are elsewhere.
        (("filter", "json", "-o", "out", *WORDS), 2, ["--caption json:description"]),
        (("filter", "json", "-o", "out", *WORDS, "--caption", "json:descriptoin"), 2, ["--caption json:description"]),
        (("filter", "json", "-o", "out", *WORDS, "--caption", "jsn:description"), 2, ["--caption json:description"]),
        (("filter", "json", "-o", "out", "--where", "words(caption) > 1 and caption_words(caption='txt') > 1"), 2, ["json:desc"]),
        (("filter", "json", "--explain", *WORDS), 2, ["--caption json:description --jobs 0 --explain"]),
        (("measure", "json", "-o", "out", "--scores", "caption_words,min_side"), 2, ["--caption json:description"]),
        (("repair", "json", "-o", "out", "--caption", "json:descriptoin"), 2, ["--caption json:description"]),
        (("repair", "json", "-o", "out", "--caption", "jsn:description"), 2, ["--caption json:description"]),
        (("repair", "in", "-o", "out", "--caption", "json:n"), 2, ["wdsflow repair in -o out"]),
        # Something is missing, or spelled otherwise.
        (("filter", "in/0.tar", "-o", "out", *LARGE), 2, ["wdsflow filter in/00000.tar -o out"]),
        (("filter", "inn/{00000..00003}.tar", "-o", "out", *LARGE), 2, ["wdsflow filter 'in/{00000..00003}.tar'"]),
        (("filter", "in/nothing*.tar", "-o", "out", *LARGE), 2, ["wdsflow filter in -o out"]),
        (("filter", "it's $HOME/*.tar", "-o", "out", *LARGE), 2, ["wdsflow filter 'it'\"'\"'s $HOME & more/*.tar'"]),
        (("filter", "in", *LARGE), 2, ["wdsflow filter in -o kept"]),
        (("filter", "in", "-o", "out", *LARGE, "--memory", "1MiB"), 2, ["--memory 672MiB"]),
        (("filter", "pipe:cat in/00000.tar", "-o", "out", *LARGE), 2, ["--allow-pipe"]),
        (("measure", "in", "-o", "out"), 2, ["wdsflow scores", "--scores caption_words,min_side"]),
        (("scores", "minside"), 2, ["wdsflow scores min_side"]),
        (("filter", "in", "-o", "out", *LARGE, "--ledger", "score"), 2, ["--ledger scored"]),
        (("filter", "in", "-o", "out", *LARGE, "--ledger", "in"), 2, ["wdsflow measure in -o in-2 --scores min_side", "--ledger in-2"]),
        # A ledger that does not serve.
        (("filter", "json", "-o", "out", "--ledger", "scored", "--where", "min_side < 200"), 2, ["wdsflow measure json -o scored-2", "--ledger scored-2"]),
        # The output is not what it could be.
        (("filter", "in", "-o", "scored", *LARGE), 2, ["-o scored --where 'min_side >= 200' --jobs 0 --restart", "-o scored-2"]),
        (("filter", "in", "-o", "in", *LARGE), 2, ["-o in-2"]),
        (("filter", "in", "-o", "file", *LARGE), 2, ["-o file-2"]),
        (("filter", "in", "-o", "file/out", *LARGE), 2, ["-o out"]),
    ],
)  # fmt: skip
def test_a_printed_command_works_when_it_is_pasted(here, words, status, commands):
    done = run(*words, *(("--jobs", 0) if words[0] in {"filter", "measure"} else ()))
    assert done.status == status, done
    assert len(done.commands) == len(commands), done
    for command, part in zip(done.commands, commands, strict=True):
        assert part in command
        again = pasted(command)
        assert again.status == 0, (command, again)
        assert "Traceback" not in done.err + again.err


def test_the_next_steps_after_shards_that_cannot_be_read_are_told(here):
    def last_lines(urls: str, *words: object) -> list[str]:
        done = run("filter", urls, *words, "--jobs", 0)
        assert done.status == 1
        return done.out.splitlines()[done.out[: done.out.index("not done: ")].count("\n") + 1 :]

    ledgers = "ledgers: out/.wdsflow/ledger"
    check = "to check the finished ones: wdsflow validate out"
    one = "1 shard is not done: fix this, and the same command resumes with it"
    two = "2 shards are not done: fix this, and the same command resumes with them"
    dry = "could not be read: fix this before the run without --dry-run"
    why = "duplicate compares the samples of all shards (the others are measured)"
    undecided = f"nothing was decided: {why}"
    assert last_lines("hurt/0000{0..2}.tar", "-o", "out", *LARGE) == [ledgers, one, check]
    assert last_lines("hurt/0000{0..2}.tar", "--dry-run", *LARGE) == [f"1 shard {dry}"]
    shutil.rmtree("out")
    Path("hurt/00000.tar").write_text("<html>")
    *told, without = last_lines("hurt/0000{0..3}.tar", "-o", "out", *COPIES)
    assert told == [undecided, ledgers, two]
    where = "--where 'min_side >= 100 and not duplicate' --jobs 0 --restart"
    assert without == f"without: wdsflow filter hurt/00002.tar hurt/00003.tar -o out {where}"
    assert last_lines("hurt/0000{0..3}.tar", "--dry-run", *COPIES)[-1] == f"2 shards {dry}"
    shutil.rmtree("out")
    *told, without = last_lines("hurt", "-o", "out", *COPIES)
    assert told == [undecided, ledgers, two]
    assert without == f"without: wdsflow filter @out/.wdsflow/readable.txt -o out {where}"
    readable = sorted(set(Path("hurt").iterdir()) - {Path(f"hurt/0000{n}.tar") for n in (0, 1)})
    assert Path("out/.wdsflow/readable.txt").read_text().splitlines() == list(map(str, readable))
    shutil.rmtree("out")
    for number in (2, 3):
        write_tar(Path(f"hurt/0000{number}.tar"), [])
    assert last_lines("hurt/0000{0..3}.tar", "-o", "out", *LARGE) == [ledgers, two]


def test_scores_that_some_shards_lack_are_computed_by_the_next_step(here):
    run("measure", "in/00000.tar", "-o", "first", "--scores", "min_side", "--jobs", 0)
    done = run("filter", "in/0000{0..1}.tar", "-o", "out", *LARGE, "--ledger", "first", "--jobs", 0)
    assert done.status == 1
    assert done.out.splitlines()[-2:] == [
        (
            "to compute what it needs: wdsflow measure 'in/0000{0..1}.tar' -o first-2 --scores"
            " min_side --recipe first/.wdsflow/run.json"
        ),
        (
            "then: wdsflow filter 'in/0000{0..1}.tar' -o out --where 'min_side >= 200' --ledger"
            " first-2 --jobs 0"
        ),
    ]


def test_shards_of_which_the_first_is_missing_are_answered_with_the_nearest(here):
    Path("in/00005.tar").write_text("<html>")
    done = run("filter", "in/0000{4..5}.tar", "-o", "out", *LARGE, "--jobs", 0)
    assert done.status == 2
    assert done.err.splitlines() == [
        f"wdsflow: nothing could be filtered: {here}/in/00004.tar: no such file",
        f"{here}/in/00005.tar: not a tar: looks like HTML page",
        "  wdsflow filter in/00000.tar -o out --where 'min_side >= 200' --jobs 0",
    ]


@pytest.mark.deep
@pytest.mark.parametrize("kind", ["filter", "measure"])
def test_a_folder_that_holds_another_run_says_which_in_the_words_of_the_command_line(here, kind):
    ways = {"filter": LARGE, "measure": ("--scores", "width")}
    other = {"filter": ("--where", "width > 1", "--unknown", "drop"), "measure": ("--scores", "width", "--image", "jpg")}  # fmt: skip
    words = {
        "filter": (
            "out holds a filter with --unknown quarantine (the default), --where 'min_side >= 200'; "
            "this run has --unknown drop, --where 'width > 1'"
        ),
        "measure": f"out holds a measurement with --image {IMAGES!r} (the default); this run has --image jpg",
    }
    assert run(kind, "in", "-o", "out", *ways[kind], "--jobs", 0).status == 0
    done = run(kind, "in", "-o", "out", *other[kind], "--jobs", 0)
    assert (done.status, done.err.splitlines()[0]) == (2, f"wdsflow: {words[kind]}")
    assert [pasted(command).status for command in done.commands[::-1]] == [0, 0]
    done = run("filter", "in", "-o", "out", "--ledger", "scored", *LARGE, "--jobs", 0)
    assert done.status == 2
    held = "measurement" if kind == "measure" else kind
    assert f"out holds a {held} with " in done.err


@pytest.mark.deep
def test_a_command_with_any_name_can_be_pasted_into_a_shell(here):
    name = "a\tb'c d\x1b"
    shutil.copytree("json", name)
    done = run("filter", name, "-o", "out", *WORDS, "--jobs", 0)
    (command,) = done.commands
    line = command.replace("wdsflow", f"'{sys.executable}' -m wdsflow", 1)
    shell = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, check=False, cwd=here
    )
    assert shell.returncode == 0, shell.stderr


@pytest.mark.deep
def test_a_run_without_any_finished_shard_leaves_its_folder_to_the_next(here):
    """The command that helps has the same output: nothing of the first may be in its way."""
    assert run("filter", "hurt/00001.tar", "-o", "out", *LARGE, "--jobs", 0).status == 2
    assert not Path("out").exists()
    Path("mine").mkdir()
    Path("mine/note").write_text("stays")
    done: Done = run("filter", "hurt/00001.tar", "-o", "mine", *COPIES, "--jobs", 0)
    assert done.status == 2
    assert [path.name for path in Path("mine").rglob("*")] == ["note"]
    assert run("filter", "in", "-o", "mine", *LARGE, "--jobs", 0).status == 0


def test_what_was_kept_is_named_for_training_even_if_most_was_quarantined(here):
    done = run("filter", "few", "-o", "out", "--where", "caption_words > 1", "--jobs", 0)
    assert done.status == 1
    assert "half or more was quarantined: 3 of 4 samples" in done.out
    assert "to train on it: --train-data out/0.tar --train-num-samples 1" in done.out
    assert "next: wdsflow inspect out/.wdsflow/quarantine/0.tar" in done.out
    tried = run("filter", "few", "--dry-run", "--where", "caption_words > 1", "--jobs", 0)
    assert "--train-data" not in tried.out
