"""Wrong uses of ``filter``, ``measure`` and ``cut``.

Each shows a message and a next step that works, has status 2, and writes nothing.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.filtering.commands import Done, pasted, run
from tests.filtering.shards import entries, write_shards
from tests.servers import http_server
from tests.shards.archives import write_tar
from wdsflow.records.folder_lock import Lock
from wdsflow.shards.source import retries as faults

LARGE = ("--where", "min_side >= 200")
RECIPES = {
    "wheer.yaml": "wheer: a",
    "list.yaml": "- a",
    "broken.yaml": "where: [",
    "stage.yaml": "stages: [renam]",
}


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wrong")
    write_shards(folder / "in", shards=2, samples=4)
    write_shards(folder / "changed", shards=2, samples=4)
    write_tar(folder / "in" / "00000.tar", entries(7, 4))
    for name in ("empty", "bad"):
        (folder / name).mkdir()
    (folder / "bad" / "page.tar").write_text("<!doctype html>")
    (folder / "bad" / "nothing.tar").write_bytes(b"")
    (folder / "list.txt").write_text("# no shard\n")
    (folder / "file").write_text("")
    os.mkfifo(folder / "bad" / "fifo.tar")
    for name, text in RECIPES.items():
        (folder / name).write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        words = ("--scores", "min_side,duplicate", "--jobs", 0)
        assert [
            run("measure", name, "-o", f"{name}-scores", *words).status
            for name in ("in", "changed")
        ] == [0, 0]
    for number in range(2):
        write_tar(folder / "changed" / f"{number:05d}.tar", entries(8 + number, 4))
    return folder


@pytest.fixture
def here(sets, tmp_path, monkeypatch):
    shutil.copytree(sets, tmp_path / "here", copy_function=_copied)
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(faults, "WAITS", (0.0,))
    return tmp_path / "here"


def _copied(source: str, target: str) -> None:
    if source.endswith("fifo.tar"):
        os.mkfifo(target)
    else:
        shutil.copy2(source, target)


def check(done: Done, message: str) -> None:
    """A command that did nothing says why, once, and what it tells to do works."""
    assert done.status == 2, done
    assert message in done.err
    assert "Traceback" not in done.err
    assert done.out == ""
    assert not Path("out").exists()
    for command in done.commands:
        again = pasted(command)
        assert again.status == 0, (command, again)


FILTER = ("filter", "in", "-o", "out")
SCORE = ("measure", "in", "-o", "out")
CUT = ("filter", "in", "-o", "out", "--ledger", "in-scores")


@pytest.mark.sample(16)
@pytest.mark.parametrize(
    ("words", "message"),
    [
        # Shards.
        (("filter",), "no shards given"),
        (("filter", "in", *LARGE), "no output folder given"),
        (("filter", "none.tar", "-o", "out", *LARGE), "/here/none.tar\n"),
        (("filter", "no/where/{0..3}.tar", "-o", "out", *LARGE), "no shards match 'no/where/{0..3}.tar'"),
        (("filter", "in/*.zip", "-o", "out", *LARGE), "no shards match 'in/*.zip'"),
        (("filter", "in/{0..99999999}.tar", "-o", "out", *LARGE), "no shards match"),
        (("filter", "empty", "-o", "out", *LARGE), "the folder empty has no .tar"),
        (("filter", "@none.txt", "-o", "out", *LARGE), "the list cannot be read: No such file"),
        (("filter", "@list.txt", "-o", "out", *LARGE), "the list is empty"),
        (("filter", "bad/page.tar", "-o", "out", *LARGE), "here/bad/page.tar: not a tar: looks like HTML page\n"),
        (("measure", "bad/page.tar", "-o", "out", "--scores", "duplicate"), "here/bad/page.tar: not a tar: looks like HTML page\n"),
        (("filter", "bad/nothing.tar", "-o", "out", *LARGE), "here/bad/nothing.tar: empty file\n"),
        (("filter", "bad/fifo.tar", "-o", "out", *LARGE), "here/bad/fifo.tar: is not a regular file\n"),
        (("filter", "pipe:cat in/00000.tar", "-o", "out", *LARGE), "pipe:cat in/00000.tar would run a shell command"),
        (("filter", "pipe:exit 3", "-o", "out", *LARGE, "--allow-pipe"), "nothing could be filtered: pipe:exit 3: "),
        (("filter", "nope://x/0.tar", "-o", "out", *LARGE), "nothing could be filtered: nope://x/0.tar: "),
        # What is asked for.
        ((*FILTER, "--where", ""), "--where is empty"),
        ((*FILTER, "--where", "minside > 3"), "did you mean min_side?"),
        ((*FILTER, "--where", "qqqqq > 3"), "no score is called 'qqqqq'"),
        ((*FILTER, "--where", "min_side >"), "the predicate ends"),
        ((*FILTER, "--where", "min_side > 'a'"), "compare min_side with a number"),
        ((*FILTER, "--where", "near_duplicate(distance=99)"), "must be from 0 to 10"),
        ((*FILTER, "--where", "near_duplicate(among='mine')"), "is not one of 'all', 'kept'"),
        ((*FILTER, "--where", "blur(sise=3) > 1"), "blur has no setting 'sise'"),
        ((*FILTER, *LARGE, "--caption", "jsn:"), "'jsn:' is not of the form json:FIELD"),
        ((*FILTER, *LARGE, "--caption", "json:title"), "no sample has a caption in json:title"),
        ((*FILTER, *LARGE, "--image", ""), "'' names no field"),
        ((*FILTER, *LARGE, "--image-memory", "much"), "much"),
        ((*FILTER, *LARGE, "--embeddings"), "add clip_similarity"),
        ((*FILTER, *LARGE, "--recipe", "none.yaml"), "none.yaml: No such file"),
        ((*FILTER, "--recipe", "wheer.yaml"), "did you mean where?"),
        ((*FILTER, "--recipe", "list.yaml"), "a recipe is a mapping"),
        ((*FILTER, "--recipe", "broken.yaml"), "broken.yaml, line 1"),
        ((*FILTER, "--recipe", "stage.yaml"), "did you mean rename?"),
        ((*FILTER, "--explain"), "no predicate to explain"),
        (SCORE, "no scores given"),
        ((*SCORE, "--scores", "blurr"), "did you mean blur?"),
        ((*SCORE, "--scores", "blur > 3"), "is not the name of a score"),
        # How it is done.
        ((*FILTER, *LARGE, "--memory", "1MiB"), "too little memory"),
        ((*FILTER, *LARGE, "--shard-index", 3, "--shard-count", 3), "slice 3 of 3 does not exist"),
        ((*FILTER, *LARGE, "--shard-count", 3, "--restart"), "other slices"),
        ((*FILTER, "--where", "not duplicate", "--shard-count", 3), "cannot run in slices"),
        ((*FILTER, *LARGE, "--address", "host:1"), "an address is for the engine ray"),
        ((*FILTER, *LARGE, "--export", "kept.csv"), "lists end in .txt"),
        ((*FILTER, *LARGE, "--export", "none/kept.txt"), "none does not exist"),
        ((*FILTER, *LARGE, "--quarantine", "out"), "choose another folder for --quarantine"),
        ((*FILTER, *LARGE, "--quarantine", "changed"), "changed/00000.tar exists already, and no run wrote it"),
        # Ledgers.
        ((*CUT, "--where", "min_sidee > 3"), "did you mean min_side?"),
        ((*CUT, *LARGE, "--embeddings"), "add clip_similarity"),
        ((*CUT, *LARGE, "--caption", "json:title"), "in-scores was measured with --caption txt: leave out --caption json:title"),
        pytest.param((*CUT[:4], "--ledger", "none", *LARGE), "none has no ledgers", marks=pytest.mark.deep),
        pytest.param(("filter", "changed", "-o", "out", "--ledger", "changed-scores", *LARGE), "has changed since", marks=pytest.mark.deep),
        (("filter", "changed", "-o", "out", "--ledger", "in-scores", "--where", "not duplicate"), "was made from another shard"),
        ((*FILTER, "--where", "clip_similarity > 0", "--embeddings-from", "none"), "none has no ledgers"),
        # Nothing can be read.
        (("filter", "bad::none.tar", "-o", "out", *LARGE), "\nand 1 other reason\n"),
    ],
)  # fmt: skip
def test_a_wrong_use_is_one_message_status_2_and_nothing_else(here, words, message):
    check(run(*words, "--jobs", 0), message)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--unknown", "perhaps"),
            "'--unknown': 'perhaps' is not one of 'quarantine', 'keep', 'drop'.",
        ),
        (
            ("--memory", "4G"),
            "'--memory': '4G' has two meanings; write '4GiB' (1024) or '4GB' (1000)",
        ),
    ],
)
def test_a_wrong_value_is_reported_with_its_option_before_anything_is_read(here, words, message):
    done = run(*FILTER, *LARGE, *words)
    assert (done.status, done.out, done.err.splitlines()[-1]) == (
        2,
        "",
        f"Error: Invalid value for {message}",
    )
    assert not Path("out").exists()


OTHERS = ("--where", "caption_words > 1 and not duplicate", "--caption", "auto")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none.tar", "/none.tar\n  the server has no such file: check the address\n"),
        ("secret.tar", "status 403"),
        ("closed", "Cannot connect"),
        ("page.tar", "not a tar"),
    ],
)
@pytest.mark.parametrize("where", [LARGE, pytest.param(OTHERS, marks=pytest.mark.deep)])
def test_a_server_that_has_no_shards_is_named_with_what_it_answered(here, name, message, where):
    pytest.importorskip("aiohttp")
    with http_server({"page.tar": b"<html>sign in</html>"}) as (url, _):
        address = f"{url}/{name}" if name != "closed" else "http://127.0.0.1:1/0.tar"
        check(
            run("filter", address, "-o", "out", *where, "--jobs", 0),
            f"nothing could be filtered: {address}: ",
        )
        assert message in run("filter", address, "-o", "out", *where, "--jobs", 0).err


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("in", "is an input: choose another folder for the output"),
        ("file", "file is a file: choose a folder for the output"),
        ("file/out", "cannot write: Not a directory: file/out/.wdsflow"),
        ("in-scores", "in-scores holds a measurement with --scores "),
        ("others", "others/00000.tar exists already, and no run wrote it: choose another folder"),
        ("https://host/out", "https://host/out is not a local folder"),
        ("x" * 300, "cannot write: File name too long"),
    ],
)
def test_an_output_that_cannot_be_is_refused_and_stays_as_it_is(here, out, message):
    Path("others").mkdir()
    Path("others/00000.tar").write_bytes(b"precious")
    before = sorted(path for path in Path().rglob("*") if not path.name.startswith("lock"))
    done = run("filter", "in", "-o", out, *LARGE, "--jobs", 0)
    assert sorted(path for path in Path().rglob("*") if not path.name.startswith("lock")) == before
    check(done, message)
    assert Path("others/00000.tar").read_bytes() == b"precious"


def test_a_folder_with_a_run_of_another_kind_or_other_options_says_what_it_holds(here):
    images = "--image 'jpg;png;jpeg;webp' (the default)"
    large = "--where 'min_side >= 200'"
    unknown = "--unknown quarantine (the default)"
    refusals = {
        ("filter", "in", "-o", "in-scores", *LARGE, "--unknown", "drop"): (
            f"in-scores holds a measurement with --scores min_side,duplicate, {unknown}; "
            f"this is a filter with --unknown drop, {large}"
        ),
        ("measure", "in", "-o", "kept", "--scores", "width", "--image", "jpg"): (
            f"kept holds a filter with {images}, {large}; "
            "this is a measurement with --image jpg, --scores width"
        ),
        ("filter", "in", "-o", "kept", *LARGE, "--scores", "width,height"): (
            "kept holds a filter with no --scores; this run has --scores width,height"
        ),
        ("filter", "in", "-o", "kept", *LARGE, "--quarantine", "aside"): (
            "kept holds a filter with no --quarantine; this run has --quarantine ../aside"
        ),
    }
    assert run("filter", "in", "-o", "kept", *LARGE, "--jobs", 0).status == 0
    for words, message in refusals.items():
        done = run(*words, "--jobs", 0)
        assert (done.status, done.out) == (2, "")
        assert done.err.splitlines()[0] == f"wdsflow: {message}"


def test_shards_that_a_ledger_lacks_are_named(here):
    words = ("--scores", "duplicate", "--jobs", 0)
    assert run("measure", "in/00000.tar", "-o", "one", *words).status == 0
    shutil.copy("in/00001.tar", "in/00002.tar")
    for source, where, lacking in (
        ("in", "width > 3 and not duplicate", "00001.tar and 1 more"),
        ("in/00001.tar", "width > 3", "00001.tar"),
    ):
        done = run("filter", source, "-o", "out", "--ledger", "one", "--where", where, "--jobs", 0)
        assert (done.status, done.out, Path("out").exists()) == (2, "", False)
        assert done.err.splitlines()[0] == (
            f"wdsflow: one has no ledger of {lacking}: measure the shards, or leave them out"
        )


def test_an_output_inside_of_the_input_is_none_of_the_shards(here):
    for _ in range(2):
        assert run("filter", "in", "-o", "in/out", *LARGE, "--jobs", 0).status == 0
    done = run("filter", "in/**/*.tar", "-o", "in/out", *LARGE, "--jobs", 0)
    assert (
        "in/out holds a filter with 2 shards; this run has 4 shards, among them in/out/00000.tar"
        in done.err
    )


def test_a_second_run_at_the_same_time_is_refused(here):
    assert run("filter", "in", "-o", "busy", *LARGE, "--jobs", 0).status == 0
    with Lock(Path("busy/.wdsflow/lock")):
        done = run("filter", "in", "-o", "busy", *LARGE, "--jobs", 0)
        check(done, "another run works in busy; wait for it or stop it")
    assert len(done.commands) == 1


DISKS = """
mount -t tmpfs -o size=40k none "$1/disk"
echo one; "$2" -m wdsflow filter "$1/in" -o "$1/disk/out" --where 'min_side >= 1' --jobs 0; echo "status $?"
mount -o remount,ro,size=40k "$1/disk"
echo two; "$2" -m wdsflow filter "$1/in" -o "$1/disk/other" --where 'min_side >= 1' --jobs 0; echo "status $?"
"""


def test_a_disk_that_is_full_or_may_not_be_written_to_is_named_with_the_path(here):
    if subprocess.run(["unshare", "-rm", "true"], check=False, capture_output=True).returncode:
        pytest.skip("no disk of our own without user namespaces")
    Path("disk").mkdir()
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    line = ["unshare", "-rm", "sh", "-c", DISKS, "sh", str(here), sys.executable]
    done = subprocess.run(
        line, env=environment, stdout=-1, stderr=subprocess.STDOUT, text=True, check=False
    )
    full, _, locked = done.stdout.partition("two\n")
    assert f"cannot write: No space left on device: {here}/disk/out/" in full
    assert f"cannot write: Read-only file system: {here}/disk/other" in locked
    assert [text.splitlines()[-1] for text in (full, locked)] == ["status 2", "status 2"]
    for text in (full, locked):
        (command,) = Done(2, "", text).commands
        assert pasted(command).status == 0


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (
            (*FILTER, *LARGE, "--shard-count", 2, "--export", "kept.txt"),
            [
                (
                    "a slice cannot list what all slices keep: leave out --export, and give it to"
                    " wdsflow merge when all slices are done"
                )
            ],
        ),
        (
            (*SCORE, "--scores", "min_side", "--export", "kept.txt"),
            [
                (
                    "kept.txt lists kept samples: wdsflow measure writes hashes.npz,"
                    " embeddings.npz or image_embeddings.npy"
                )
            ],
        ),
        (
            (*FILTER, *LARGE, "--quarantine", "changed"),
            [
                "changed/00000.tar exists already, and no run wrote it: choose another folder",
                "  wdsflow filter in -o out --where 'min_side >= 200' --quarantine out-quarantine",
            ],
        ),
        (
            (*CUT[:4], "--where", "min_side > 0 and nosuch > 1", "--ledger", "in-scores"),
            [
                "where, column 18: no score is called 'nosuch'",
                "    min_side > 0 and nosuch > 1",
                "                     ^^^^^^",
                "  all scores: wdsflow scores",
            ],
        ),
        (
            (
                *("filter", "bad/page.tar::bad/nothing.tar::bad/fifo.tar", "-o", "out"),
                *(*LARGE, "--jobs", 0),
            ),
            [
                "nothing could be filtered: {here}/bad/page.tar: not a tar: looks like HTML page",
                "{here}/bad/nothing.tar: empty file",
                "{here}/bad/fifo.tar: is not a regular file",
                "  it is not a shard: download or write it again",
            ],
        ),
    ],
)
def test_what_cannot_be_done_is_refused_in_these_words(here, words, lines):
    done = run(*words)
    assert (done.status, done.out) == (2, "")
    assert done.err.splitlines() == [
        f"wdsflow: {lines[0]}".format(here=here),
        *(line.format(here=here) for line in lines[1:]),
    ]
    assert not Path("out").exists()


BESIDE_UTF8 = os.fsdecode(b"caf\xe9")


@pytest.mark.parametrize(("out", "reason"), [(BESIDE_UTF8, "not UTF-8"), ("a\\[1", "a backslash")])
@pytest.mark.parametrize("command", ["filter", "measure"])
def test_an_output_folder_whose_ledgers_could_not_be_read_is_refused(here, out, reason, command):
    words = {"filter": LARGE, "measure": ("--scores", "width,duplicate")}[command]
    done = run(command, "in", "-o", out, *words, "--jobs", 0)
    check(done, reason)
    assert "choose another folder for the output" in done.err
    assert not Path(out).exists()


def test_a_shard_whose_ledger_could_not_be_read_is_refused(here):
    Path("odd").mkdir()
    shutil.copy("in/00000.tar", "odd/a\\[1].tar")
    done = run("filter", "odd", "-o", "out", *LARGE, "--jobs", 0)
    check(done, "rename the shard")


def test_a_ledger_folder_that_cannot_be_read_is_named(here):
    shutil.move("in-scores", BESIDE_UTF8)
    done = run("filter", "in", "-o", "out", *LARGE, "--ledger", BESIDE_UTF8, "--jobs", 0)
    assert done.status == 2
    assert "rename it, its path is not UTF-8" in done.err
