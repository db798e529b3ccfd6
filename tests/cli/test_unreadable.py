"""Shards that cannot be read give no verdict.

One line names the first of them in full, and the status is 2.
"""

import json
import socket
import subprocess
import sys

import pytest

from tests.cli import shards
from tests.printed.pasted import commands
from tests.shards.archives import write_tar
from wdsflow.cli.main import main
from wdsflow.text.shell import quote

WORDS = {"validate": [], "inspect": [], "repair": ["-o", "out"]}


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(words)
    return int(ended.value.code or 0)


@pytest.fixture
def unreadable(tmp_path, monkeypatch):
    """Urls that cannot be read, each with the name of it in full and with a word of the reason."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("wdsflow.shards.source.retries.WAITS", ())
    (tmp_path / "page.tar").write_text("<html>404</html>")
    (tmp_path / "empty.tar").touch()
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        down = f"http://127.0.0.1:{nobody.getsockname()[1]}/0.tar"
        yield {
            "a path that does not exist": (
                "nowhere.tar",
                f"{tmp_path}/nowhere.tar",
                "no such file",
            ),
            "a page": ("page.tar", f"{tmp_path}/page.tar", "not a tar: looks like HTML page"),
            "an empty file": ("empty.tar", f"{tmp_path}/empty.tar", ""),
            "a server that is down": (down, down, "Cannot connect"),
            "a command that fails": ("pipe:exit 3", "pipe:exit 3", "status 3"),
        }


@pytest.mark.sample(1)
@pytest.mark.parametrize("command", WORDS)
def test_one_line_tells_that_nothing_could_be_read(unreadable, capsys, command):
    for url, name, reason in unreadable.values():
        assert run(command, url, "--allow-pipe", *WORDS[command]) == 2, url
        shown = capsys.readouterr()
        assert shown.out == ""
        line, *hints = shown.err.splitlines()
        if command == "repair" and name.endswith("nowhere.tar"):  # none of the shards exists
            assert (line, hints[0]) == (
                "wdsflow: no shards match 'nowhere.tar'",
                f"  no such file: {name}",
            )
            continue
        assert line.startswith(f"wdsflow: nothing could be read: {name}: ")
        assert reason in line
        missing = name.endswith("nowhere.tar")  # here are others
        advised = [
            f"wdsflow {'validate ' + quote(url) if command == 'repair' else command + ' .'} --allow-pipe"
        ]
        advised = advised if command == "repair" or missing else []
        assert [each for hint in hints for each in commands(hint)] == advised


@pytest.mark.sample(1)
@pytest.mark.parametrize("form", ["json", "sarif", "github", "html"])
def test_reports_for_programs_have_no_verdict_either(unreadable, capsys, form):
    url, name, _ = unreadable["a page"]
    assert (
        run("validate", url, "--format", form, "--for", "open-clip-3.3", "--for", "datasets") == 2
    )
    shown = capsys.readouterr()
    assert "stalls" not in shown.out.lower()
    assert "page.tar" in shown.out
    assert shown.err.startswith(f"wdsflow: nothing could be read: {name}")
    if form == "json":
        tree = json.loads(shown.out)
        assert (tree["ok"], tree["verdicts"]) == (False, [])
        assert [finding["code"] for finding in tree["findings"]] == ["W005"]


@pytest.mark.deep
def test_one_shard_that_can_be_read_is_enough_for_a_verdict(tmp_path, capsys):
    (tmp_path / "page.tar").write_text("<html>404</html>")
    assert run("validate", str(tmp_path / "page.tar"), shards.with_txt(tmp_path)) == 1
    assert "TRAINS" in capsys.readouterr().out


@pytest.fixture
def empty(tmp_path, monkeypatch):
    """A folder with a tar that can be read and holds nothing, and a file without bytes."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s").mkdir()
    write_tar(tmp_path / "s/0.tar", [])
    (tmp_path / "s/1.tar").touch()
    return tmp_path / "s"


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "words", [[], ["--ignore", "W"], ["--", "--train-data", "s/{0..1}.tar", "--workers", "1"]]
)
def test_shards_that_hold_no_sample_have_no_verdict_but_a_line_with_their_paths(
    empty, capsys, words
):
    assert run("validate", "s", *words) == 1
    shown = capsys.readouterr().out
    first = shown.splitlines()[0]
    assert first.startswith("the shards hold no samples")
    assert first.endswith(f": {empty}/0.tar (none in it), {empty}/1.tar (the file is empty)")
    assert "STALLS" not in shown


@pytest.mark.deep
def test_reports_for_programs_have_no_verdict_on_shards_that_hold_no_sample(empty, capsys):
    for form in ("github", "html", "json"):
        assert run("validate", "s", "--format", form) == 1
        shown = capsys.readouterr().out
        assert "stalls" not in shown.lower()
        assert "the shards hold no samples" in shown or json.loads(shown)["verdicts"] == []


def test_training_on_shards_that_hold_no_sample_is_refused_in_the_same_line(empty, capsys):
    assert run("train", "--dry-run", "--", "--train-data", "s/{0..1}.tar") == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert (
        f"preflight: the shards hold no samples; write or download them again: {empty}/0.tar"
        in shown.err
    )


@pytest.mark.deep
def test_a_filter_does_not_advise_to_go_on_without_a_shard_where_the_others_hold_nothing(
    empty, capsys
):
    assert run("filter", "s", "-o", "kept", "--where", "min_side >= 1") == 1
    shown = capsys.readouterr().out
    assert "not done: s/1.tar" in shown
    assert "without: " not in shown


LACKS = (
    "import sys; sys.modules['gcsfs'] = None; from wdsflow.cli.main import main; main(sys.argv[1:])"
)


@pytest.mark.usefixtures("new_interpreters")
@pytest.mark.deep
def test_a_library_that_is_missing_is_reported_once_with_the_command_that_installs_it(tmp_path):
    sound = shards.with_txt(tmp_path)
    for words, status in ((["gs://b/{0..5}.tar"], 2), (["gs://b/{0..5}.tar", sound], 1)):
        run = [sys.executable, "-c", LACKS, "validate", *words, "--for", "open-clip-3.3"]
        done = subprocess.run(run, capture_output=True, text=True, check=False)
        told = [
            line for line in (done.stdout + done.stderr).splitlines() if line.endswith("[remote]'")
        ]
        assert done.returncode == status
        assert len(told) <= 2  # the first thing to do, and the finding
        assert "install" in told[0]
        assert (done.stdout + done.stderr).count("library that is not installed") == 1
